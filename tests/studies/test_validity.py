"""Results of independent simulators for public traces are reproduced to the decimal.

The reference places gangs of more than 8 GPUs on whole nodes, starts jobs at once, and never preempts.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import studies.formats  # noqa: F401  registers the formats of the traces
from bursar.model.fleet.fleet import Fleet
from bursar.model.jobs.job import CheckpointPolicy
from bursar.model.tenants.policy import Policies
from bursar.model.units import MINUTE_MS
from bursar.simulate.metrics import Summary
from bursar.simulate.runs import FleetChoice, RunRequest, prepare
from bursar.simulate.scenario import Delays
from bursar.simulate.workload.trace_scenario import TraceMapping
from tests.seeds import first_always
from tests.support import fleet_of, pool

ROOT = Path(__file__).resolve().parents[2]
TRACES = Path(os.environ.get("BURSAR_TRACES") or ROOT.parent / "shared" / "traces")
PHILLY = TRACES / "bench" / "philly_5000_20171106.csv"
HELIOS = TRACES / "helios_slice" / "helios_venus_2vc_sept.csv.xz"
AT_ONCE = Delays(start_ms=0, stop_ms=0)


SAVING = CheckpointPolicy(interval_ms=10 * MINUTE_MS, restart_ms=MINUTE_MS)


def summary_of(
    source: Path, fleet: Fleet, policy: str, mapping: TraceMapping, limit: int | None = None
) -> Summary:
    if not source.exists():
        pytest.skip(f"{source} is absent; set BURSAR_TRACES to the folder of the traces")
    request = RunRequest(
        name=policy,
        source=str(source),
        fleet=FleetChoice(name="reference", fleet=fleet, tenants=(), policies=Policies()),
        policy=policy,
        limit=limit,
        mapping=mapping,
        delays=AT_ONCE,
    )
    outcome = prepare(request).carry_out()
    assert outcome.complete and outcome.remarks() == ()
    assert outcome.summary.outcomes.unfinished == 0
    return outcome.summary


def seconds(mean_ms: float) -> float:
    return round(mean_ms / 1_000, 1)


@pytest.mark.parametrize(
    ("policy", "jct_s", "wait_s"),
    first_always(
        2,
        [
            ("fifo-strict", 66_471.7, 56_184.9),
            ("sjf", 12_719.3, 2_432.5),
            ("service-first", 12_309.5, 2_022.7),
            ("fifo", 20_686.7, 10_399.9),
            ("sjf-skip", 12_288.0, 2_001.2),
        ],
    ),
)
def test_philly_on_48_nodes(policy: str, jct_s: float, wait_s: float) -> None:
    """Two independent simulators agree on the first two, one gives the others."""
    fleet = fleet_of(pool("a100", 48))
    summary = summary_of(PHILLY, fleet, policy, TraceMapping(teams_share_a_queue=True))
    assert summary.outcomes.succeeded == 5_000
    assert seconds(summary.times.jct_ms.mean) == jct_s
    assert seconds(summary.times.wait_ms.mean) == wait_s


@pytest.mark.parametrize(
    ("policy", "jct_s"),
    [("fifo-strict", 16_534.3), ("sjf", 6_272.8), ("service-first", 5_898.9)],
)
def test_helios_slice_with_a_partition_for_each_team(policy: str, jct_s: float) -> None:
    """Each virtual cluster has nodes and a queue of its own, as in the reference."""
    fleet = fleet_of(
        pool("large", 20, model="v100-32gb", labels={"vc": "vcvGl"}),
        pool("small", 2, model="v100-32gb", labels={"vc": "vcvlY"}),
    )
    options = TraceMapping(pin_label="vc", any_model=True)
    summary = summary_of(HELIOS, fleet, policy, options)
    assert summary.outcomes.succeeded == 1_867
    assert seconds(summary.times.jct_ms.mean) == jct_s


@pytest.mark.thorough
def test_on_the_helios_slice_ours_beats_orders_with_the_same_knowledge() -> None:
    """Preemption has a cost: work since the last checkpoint is repeated, and a restart takes a minute."""
    fleet = fleet_of(
        pool("large", 20, model="v100-32gb", labels={"vc": "vcvGl"}),
        pool("small", 2, model="v100-32gb", labels={"vc": "vcvlY"}),
    )
    options = TraceMapping(pin_label="vc", any_model=True, checkpoint=SAVING)
    ours = summary_of(HELIOS, fleet, "bursar", options).times.jct_ms
    for other in ("fifo-strict", "qssf", "las"):
        theirs = summary_of(HELIOS, fleet, other, options).times.jct_ms
        assert ours.mean < theirs.mean, other
        assert ours.p99 < theirs.p99, other


@pytest.mark.thorough
def test_on_a_part_of_philly_ours_completes_jobs_sooner_than_fifo_and_learned_qssf() -> None:
    """The first 2,000 jobs, before which nothing has been learned.

    Only the mean is claimed, and only against these: on this part ``las`` has a mean 0.5 % lower and a
    p99 5.8 % higher (docs/validity.md).
    """
    fleet = fleet_of(pool("a100", 24))
    options = TraceMapping(teams_share_a_queue=True, checkpoint=SAVING)
    ours = summary_of(PHILLY, fleet, "bursar", options, limit=2_000).times.jct_ms
    for other in ("fifo-strict", "fifo", "qssf"):
        theirs = summary_of(PHILLY, fleet, other, options, limit=2_000).times.jct_ms
        assert ours.mean < theirs.mean, other
