"""(s) Short real jobs on a real Slurm: plain sbatch compared with Bursar in front of it.

Both run in turn on the same test cluster, with the same jobs on the same GPUs. Wall-clock time.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.figure import Figure
from bursar.client import Client
from bursar.model.event import AttemptSucceeded
from bursar.model.jobs.job import JobState
from bursar.store import open_store
from bursar.store.sql_store import SqlStore
from tests.support.slurm_lab import Lab, LabPlan
from tests.support.slurm_lab.lab import missing_programs
from tests.support.slurm_lab.lab_spec import a100_nodes

JOBS = int(os.environ.get("BURSAR_BENCH_SLURM_JOBS", "800"))
SUBMISSIONS = 300
BULK = 500
ROUNDS = 7
"""Pairs of runs. The order alternates, so that other load on the machine affects both. On shared processors
single pairs differ by 30 % and more, medians of three by 20 %."""
TIMEOUT_SECONDS = 300.0
LARGE = LabPlan(nodes=a100_nodes(16), users=(), quick=True)
"""Enough slots that the processors are the bottleneck, not Slurm's scheduling passes."""
SMALL = LabPlan(nodes=a100_nodes(8), users=(), quick=True)
"""So few GPUs that Slurm's scheduling passes limit the rate of empty jobs (docs/slurm.md)."""
PLAIN = replace(SMALL, quick=False)
"""Without the settings recommended for clusters that Bursar drives."""
SETTINGS = ("Epilog", "PrologFlags", "SchedulerParameters")
FLEET = """
clusters: {{lab: {{engine: slurm}}}}
pools:
  a100: {{market: owned, gpus: a100 x 8, cpus: 64, memory_gib: 250, usd_per_node_hour: 12, nodes: [{nodes}]}}
tenants: {{acme: {{children: {{research: {{}}}}}}}}
"""


def figures() -> list[Figure]:
    """Completed jobs per second, and submissions to Slurm per second."""
    if missing_programs():
        absent = "not measured: Slurm is not installed ('make slurm-lab DO=install')"
        return [Figure(scenario="(s) Slurm", what="jobs", measured=absent, reference="")]
    rows: list[Figure] = []
    for plan in (LARGE, SMALL, PLAIN):
        with _lab(plan) as lab:
            rows += _measure(lab)
            if plan is LARGE:
                rows.append(_submission_figure(lab))
    return rows


def _measure(lab: Lab) -> list[Figure]:
    """Measure both on one test cluster, and list its settings."""
    gpus = sum(len(node.gpus) for node in lab.plan.nodes)
    with_or_without = "with" if lab.plan.quick else "without"
    name = f"(s) Slurm, `true` on 1 of {gpus} GPUs, {with_or_without} the recommended settings"
    rows = _completed(name, [_one_round(lab, number) for number in range(ROUNDS)])
    config = lab.run("scontrol", "show", "config").splitlines()
    settings = [one.split("=", 1) for one in config if one.split(" ")[0] in SETTINGS]
    text = ", ".join(f"{key.strip()}: {value.strip()}" for key, value in settings)
    what = "settings of the test cluster, from scontrol"
    return [*rows, Figure(scenario=name, what=what, measured=text, reference="")]


def _submission_figure(lab: Lab) -> Figure:
    by_sbatch, by_rest = _submission_rates(lab)
    return Figure(
        scenario="(s) Slurm, submission only",
        what="submissions to Slurm per second, one client",
        measured=f"{by_rest:.0f}/s",
        reference=f"sbatch {by_sbatch:.0f}/s",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Jobs completed per second by plain sbatch and by Bursar, one run after the other."""

    plain: float
    ours: float

    @property
    def overhead_percent(self) -> float:
        return 100 * (self.plain - self.ours) / self.plain


def _one_round(lab: Lab, number: int) -> Round:
    if number % 2:
        ours = _through_bursar(lab)
        return Round(plain=_through_sbatch(lab), ours=ours)
    plain = _through_sbatch(lab)
    return Round(plain=plain, ours=_through_bursar(lab))


def _completed(name: str, rounds: list[Round]) -> list[Figure]:
    """Medians over the rounds, which single outliers do not affect, and each round's result."""
    plain = statistics.median(one.plain for one in rounds)
    ours = statistics.median(one.ours for one in rounds)
    overhead = statistics.median(one.overhead_percent for one in rounds)
    best_plain, best_ours = max(one.plain for one in rounds), max(one.ours for one in rounds)
    return [
        Figure(
            scenario=name,
            what=f"{JOBS:,} jobs through Bursar, completed per second, median of {len(rounds)} rounds",
            measured=f"{ours:.1f}/s",
            reference=f"plain sbatch {plain:.1f}/s; overhead {overhead:+.0f} %, target under 10",
        ),
        Figure(
            scenario=name,
            what="each round (overhead over plain sbatch); the best",
            measured=", ".join(f"{one.ours:.1f} ({one.overhead_percent:+.0f} %)" for one in rounds)
            + f"; {best_ours:.1f}",
            reference=", ".join(f"{one.plain:.1f}" for one in rounds) + f"; {best_plain:.1f}",
        ),
    ]


@contextmanager
def _lab(plan: LabPlan) -> Iterator[Lab]:
    lab = Lab(Path(tempfile.mkdtemp(prefix="bursar-slurm-")), plan)
    try:
        lab.start()
        yield lab
    finally:
        lab.stop()


# -- plain sbatch ----------------------------------------------------------------------------------


def _through_sbatch(lab: Lab) -> float:
    """Jobs completed per second by a script that calls sbatch once per job."""
    began = time.monotonic()
    for _ in range(JOBS):
        _sbatch(lab)
    _wait_for_empty_queue(lab)
    return JOBS / (time.monotonic() - began)


def _sbatch(lab: Lab, *options: str) -> None:
    subprocess.run(
        ["sbatch", "-Q", "-o", "/dev/null", "--gres=gpu:a100:1", *options, "--wrap", "true"],
        env=lab.environment(),
        cwd=lab.folder / "work",
        stdout=subprocess.DEVNULL,
        check=True,
    )


def _wait_for_empty_queue(lab: Lab) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while lab.run("squeue", "-h", "-o", "%i").strip():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the jobs took more than {TIMEOUT_SECONDS:.0f} s")
        time.sleep(0.2)


# -- Bursar ----------------------------------------------------------------------------------------


def _through_bursar(lab: Lab) -> float:
    """Jobs completed per second by Bursar, until the last end is in the log.

    The folder is deleted only with the test cluster: just after thousands of files are removed, a file system
    may create files more slowly, which would distort the next round.
    """
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=lab.folder))
    nodes = ", ".join(node.name for node in lab.plan.nodes)
    (folder / "fleet.yaml").write_text(FLEET.format(nodes=nodes), encoding="utf-8")
    state = folder / "state"
    arguments = ["up", "--port", "0", "--state", str(state), "--fleet", str(folder / "fleet.yaml")]
    environment = {
        **os.environ,
        **lab.environment(),
        "BURSAR_SLURM_REST_SOCKET": str(lab.rest_socket),
    }
    server = subprocess.Popen(
        [sys.executable, "-m", "bursar", *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        return JOBS / _run_jobs(state)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)


def _run_jobs(state: Path) -> float:
    deadline = time.monotonic() + 60
    while not (state / "server.json").exists() or not (state / "admin-token").exists():
        if time.monotonic() > deadline:
            raise TimeoutError("the server did not start within 60 s")
        time.sleep(0.05)
    os.environ["BURSAR_STATE"] = str(state)
    document: dict[str, Any] = {"name": "true", "run": "true", "queue": "research"}
    document["resources"] = {"cpus": 1, "accelerators": "A100:1"}
    with Client() as client:
        began_ms = time.time_ns() // 1_000_000
        for first in range(0, JOBS, BULK):
            client.submit_many([document] * min(BULK, JOBS - first))
    store = open_store(state / "bursar.db", read_only=True)
    try:
        _wait_for_ends(store)
        return (_last_end_ms(store) - began_ms) / 1_000
    finally:
        store.close()


def _wait_for_ends(store: SqlStore) -> None:
    """Poll rarely, because polls slow the jobs; the exact time of the end is in the log."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while store.count_jobs(None).get(JobState.SUCCEEDED, 0) < JOBS:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the jobs took more than {TIMEOUT_SECONDS:.0f} s")
        time.sleep(1.0)


def _last_end_ms(store: SqlStore) -> int:
    return max(one.event.at_ms for one in store.events() if isinstance(one.event, AttemptSucceeded))


# -- submissions only ------------------------------------------------------------------------------


def _submission_rates(lab: Lab) -> tuple[float, float]:
    """Submissions per second by sbatch and by the engine, to a partition that is down."""
    from bursar.engines.slurm.commands.commands import Commands
    from bursar.engines.slurm.driven.request import HetComponent, JobRequest
    from bursar.engines.slurm.driven.submit import Submitter

    lab.run("scontrol", "update", "PartitionName=training", "State=DOWN")
    began = time.monotonic()
    for _ in range(SUBMISSIONS):
        _sbatch(lab, "--nodelist=a100-1")
    by_sbatch = SUBMISSIONS / (time.monotonic() - began)
    submitter = Submitter(Commands(environment=lab.environment()), lab.rest_socket)
    request = JobRequest(
        name="true",
        comment="bursar:bench:j-1@1",
        components=(HetComponent(nodes=("a100-1",), cpus=1, memory_mib=0, gres="gpu:a100:1"),),
        minutes=10,
        partition="training",
        environment={"PATH": "/usr/bin:/bin"},
    )
    began = time.monotonic()
    for _ in range(SUBMISSIONS):
        submitter.submit(request, "#!/bin/bash\ntrue\n")
    by_rest = SUBMISSIONS / (time.monotonic() - began)
    submitter.close()
    return by_sbatch, by_rest
