"""(o) Job completion times of queue orders on public traces, from submission to end.

Only ``sjf`` and ``srtf`` know the actual run times; ``qssf`` and ours learn from finished jobs. Jobs save a
checkpoint every 10 minutes, and a restart costs a minute.
"""

from __future__ import annotations

import os
from pathlib import Path

import studies.formats  # noqa: F401  registers the formats of the traces
from benchmarks.figure import Figure
from bursar.model.fleet.fleet import Fleet
from bursar.model.jobs.job import CheckpointPolicy
from bursar.model.tenants.policy import Policies
from bursar.model.units import HOUR_MS, MILLI, MINUTE_MS, SECOND_MS
from bursar.simulate.metrics import Summary
from bursar.simulate.runs import FleetChoice, RunRequest, prepare
from bursar.simulate.scenario import Delays
from bursar.simulate.workload.trace_scenario import TraceMapping
from tests.support import fleet_of, pool

TRACES = Path(os.environ.get("BURSAR_TRACES") or Path(__file__).parents[2] / "shared" / "traces")
PHILLY = TRACES / "bench" / "philly_5000_20171106.csv"
HELIOS = TRACES / "helios_slice" / "helios_venus_2vc_sept.csv.xz"
ORDERS = ("fifo-strict", "fifo", "sjf", "srtf", "las", "qssf", "bursar")
CHECKPOINTS = CheckpointPolicy(interval_ms=10 * MINUTE_MS, restart_ms=MINUTE_MS)
PUBLISHED = {
    ("Philly", "fifo-strict"): "66,471.7 (Helios' simulator), 66,464 (Tiresias)",
    ("Philly", "sjf"): "12,719.3 (Helios' simulator)",
    ("Philly", "srtf"): "11,190.5 (Helios' simulator)",
    ("Philly", "las"): "11,431 (Tiresias, preemption without cost)",
    ("Helios", "fifo-strict"): "16,534.3 (Helios' simulator)",
    ("Helios", "sjf"): "6,272.8 (Helios' simulator)",
    ("Helios", "srtf"): "6,080.9 (Helios' simulator)",
}


def figures() -> list[Figure]:
    """Every order on 5,000 jobs of Philly in one queue, and on two partitions of Helios."""
    philly = fleet_of(pool("a100", 48))
    helios = fleet_of(
        pool("large", 20, model="v100-32gb", labels={"vc": "vcvGl"}),
        pool("small", 2, model="v100-32gb", labels={"vc": "vcvlY"}),
    )
    one_queue = TraceMapping(teams_share_a_queue=True, checkpoint=CHECKPOINTS)
    pinned = TraceMapping(pin_label="vc", any_model=True, checkpoint=CHECKPOINTS)
    return [
        *_compare("Philly", PHILLY, philly, one_queue),
        *_compare("Helios", HELIOS, helios, pinned),
    ]


def _compare(name: str, source: Path, fleet: Fleet, mapping: TraceMapping) -> list[Figure]:
    if not source.exists():
        return [
            Figure(
                scenario=f"(o) {name}",
                what="not run",
                measured="-",
                reference=f"no trace at {source}; set BURSAR_TRACES",
            )
        ]
    choice = FleetChoice(name=name, fleet=fleet, tenants=(), policies=Policies())
    rows: list[Figure] = []
    for order in ORDERS:
        request = RunRequest(
            name=order,
            source=str(source),
            fleet=choice,
            policy=order,
            mapping=mapping,
            delays=Delays(start_ms=0, stop_ms=0),
        )
        summary = prepare(request).carry_out().summary
        rows.append(
            Figure(
                scenario=f"(o) {name}, {order}",
                what="JCT s: mean, p50, p99; preemptions; GPU-h lost",
                measured=_format(summary),
                reference=PUBLISHED.get((name, order), "-"),
            )
        )
    return rows


def _format(summary: Summary) -> str:
    jct, losses = summary.times.jct_ms, summary.losses
    lost_hours = (losses.lost_gpu_milli_ms + losses.restart_gpu_milli_ms) / MILLI / HOUR_MS
    times = [f"{value / SECOND_MS:,.1f}" for value in (jct.mean, jct.p50, jct.p99)]
    return "; ".join([", ".join(times), f"{losses.preemptions:,}", f"{lost_hours:,.0f}"])
