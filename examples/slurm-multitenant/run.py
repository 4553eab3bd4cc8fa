"""Two teams share sixteen nodes of a temporary Slurm cluster for training and inference.

    python examples/slurm-multitenant/run.py

Starts a real Slurm on this machine (fake GPUs, loopback only), writes its accounts, shares, QOS, limits and
partitions from fleet.yaml, fills it with research's jobs, lets inference reclaim its quota, and prints the
usage of all accounts. The cluster is removed at the end.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

from bursar.cli.main import main as bursar_main

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))  # the lab is in the checkout, not in the package

from tests.support.slurm_lab.lab import Lab  # noqa: E402
from tests.support.slurm_lab.lab_spec import LabPlan, a100_nodes, t4_nodes  # noqa: E402

FLEET = str(HERE / "fleet.yaml")
USERS = ("alice=research-training", "carol=product-training", "dave=product-inference")
TRAINING_JOBS, FINETUNE_JOBS, SERVING_JOBS = 10, 2, 3
TIMEOUT_SECONDS = 120
LONG_SECONDS = 330
"""The longest run time of jobs. The example ends them itself, so that it is the same on a slow machine."""
WORK_SECONDS = 4
"""How long jobs run before inference starts: some of this work is lost, and billed."""


@dataclass
class ExampleRun:
    """Results of each step, for the test."""

    applied: dict = field(default_factory=dict)
    applied_again: dict = field(default_factory=dict)
    trained: list[str] = field(default_factory=list)
    routes: list[dict] = field(default_factory=list)
    finetuned: list[str] = field(default_factory=list)
    served: list[str] = field(default_factory=list)
    held_before: dict[str, int] = field(default_factory=dict)
    held_after: dict[str, int] = field(default_factory=dict)
    why: str = ""
    runs: list[list[str]] = field(default_factory=list)
    usage: dict = field(default_factory=dict)


def bursar(*arguments: str) -> str:
    """Runs a bursar command in this process, which is fast; returns its output."""
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(io.StringIO()) as errors:
        code = bursar_main(list(arguments))
    if code:
        sys.exit(f"bursar {' '.join(arguments)}: {errors.getvalue().strip()}")
    return output.getvalue()


def plan() -> LabPlan:
    """A lab whose slurm.conf ends with the lines that the fleet needs."""
    conf = json.loads(bursar("render", "slurm", "--fleet", FLEET, "--json"))["slurm_conf"]
    return LabPlan(
        nodes=(*t4_nodes(12), *a100_nodes(4)),
        partitions=(),
        rest=False,
        enforce="associations,limits,qos",
        preempt="PreemptType=preempt/qos",
        slurm_conf=tuple(line for line in conf.splitlines() if not line.startswith("#")),
    )


def run_example(lab: Lab, log: Callable[[str], None]) -> ExampleRun:
    """Runs all steps, from an empty accounting database to the bill."""
    run = ExampleRun()
    os.environ.update(
        lab.environment()
    )  # Slurm's commands, also those that Bursar runs, now use this cluster
    users = [argument for user in USERS for argument in ("--user", user)]
    apply = ("render", "slurm", "--fleet", FLEET, *users, "--grace", "0", "--apply", "--yes")
    run.applied = json.loads(bursar(*apply, "--json"))
    run.applied_again = json.loads(bursar(*apply, "--json"))
    log(
        f"1. {len(run.applied['changes'])} changes by sacctmgr, then {len(run.applied_again['changes'])}"
    )
    _fill(lab, run)
    log(f"2. research and product run on {run.held_before} GPUs by QOS")
    _serve(lab, run)
    log(f"3. inference has reclaimed its quota: {run.held_after}")
    _wait(lambda: bool(_blocked(lab)), "no job waits for resources")
    waiting = _blocked(lab)[0]
    run.why = bursar("why", waiting)
    log(f"4. bursar why {waiting}:\n{run.why.rstrip()}")
    _end(lab, run)
    text = lab.run("sacct", "-P", "-n", "-D", "-X", "-a", "-o", "JobID,QOS,State,NNodes,Start,End")
    run.runs = [line.split("|") for line in text.splitlines()]
    run.usage = json.loads(bursar("slurm", "usage", "--fleet", FLEET, "--json"))
    log("5. usage of all accounts:")
    log(bursar("slurm", "usage", "--fleet", FLEET).rstrip())
    return run


def _fill(lab: Lab, run: ExampleRun) -> None:
    """Submits jobs of research beyond its quota, and jobs of product within its quota."""
    for file, user, count, ids in (
        ("train.yaml", "alice", TRAINING_JOBS, run.trained),
        ("finetune.yaml", "carol", FINETUNE_JOBS, run.finetuned),
    ):
        for _ in range(count):
            arguments = (
                str(HERE / "jobs" / file),
                "--fleet",
                FLEET,
                "--as",
                user,
                "--log",
                "/dev/null",
                "--env",
                f"SECONDS_TO_RUN={LONG_SECONDS}",
                "--env",
                f"OVER={_stop_file(lab)}",
                "--json",
            )
            route = json.loads(bursar("slurm", "submit", *arguments))
            run.routes.append(route)
            ids.append(route["job"])
    jobs = [*run.trained, *run.finetuned]
    _wait(lambda: _states(lab, jobs) == {"RUNNING"}, "not all jobs started")
    run.held_before = held_by_qos(lab)
    time.sleep(WORK_SECONDS)


def _serve(lab: Lab, run: ExampleRun) -> None:
    """Starts one server after the other: for several at once Slurm may preempt too many jobs."""
    export = f"--export=ALL,SECONDS_TO_SERVE={LONG_SECONDS},OVER={_stop_file(lab)}"
    for _ in range(SERVING_JOBS):
        job = lab.run("sbatch", "--parsable", "--uid=dave", export, str(HERE / "serve.sbatch"))
        run.served.append(job.strip())
        _wait(
            lambda: _states(lab, run.served) == {"RUNNING"}, "inference did not get its own quota"
        )
    run.held_after = held_by_qos(lab)


def _end(lab: Lab, run: ExampleRun) -> None:
    """Ends all jobs, requeued ones too, and waits until Slurm's accounting has recorded it."""
    _stop_file(lab).touch()
    jobs = [*run.trained, *run.finetuned, *run.served]
    _wait(lambda: not _states(lab, jobs), "not all jobs ended")
    _wait(lambda: not _has_unrecorded_ends(lab), "Slurm's accounting did not record all ends")


def _stop_file(lab: Lab) -> Path:
    """Jobs end when this file exists."""
    return lab.folder / "work" / "over"


def _has_unrecorded_ends(lab: Lab) -> bool:
    """Whether accounting still has a job as running or pending."""
    lines = lab.run("sacct", "-n", "-X", "-a", "-P", "-o", "State,End").splitlines()
    return any(line.startswith(("RUNNING", "PENDING")) or "Unknown" in line for line in lines)


def held_by_qos(lab: Lab) -> dict[str, int]:
    """GPUs that the running jobs of each QOS hold."""
    gpus: dict[str, int] = {}
    for line in lab.run("squeue", "-h", "-t", "R", "-o", "%q|%b").splitlines():
        qos, gres = line.split("|")
        gpus[qos] = gpus.get(qos, 0) + int(gres.rpartition(":")[2])
    return dict(sorted(gpus.items()))


def _states(lab: Lab, ids: Sequence[str]) -> set[str]:
    """States of the unfinished jobs among ``ids``."""
    lines = lab.run("squeue", "-h", "-o", "%i|%T").splitlines()
    return {line.split("|")[1] for line in lines if line.split("|")[0] in ids}


def _blocked(lab: Lab) -> list[str]:
    """Jobs that wait for resources; a preempted job first waits a few seconds for its own requeue."""
    lines = lab.run("squeue", "-h", "-t", "PD", "-o", "%i|%r").splitlines()
    return [line.split("|")[0] for line in lines if line.split("|")[1] in ("Resources", "Priority")]


def _wait(condition: Callable[[], bool], problem: str) -> None:
    until = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        if time.monotonic() > until:
            sys.exit(f"{problem} within {TIMEOUT_SECONDS} s")
        time.sleep(0.5)


def main() -> int:
    """Starts a cluster, runs the example, and removes the cluster."""
    began = time.monotonic()
    lab = Lab(Path(tempfile.mkdtemp(prefix="bursar-slurm-")), plan())
    lab.start()
    try:
        print(f"0. a Slurm with 16 nodes and 80 GPUs started in {time.monotonic() - began:.1f} s")
        run_example(lab, print)
    finally:
        lab.stop()
    print(f"done after {time.monotonic() - began:.1f} s; the Slurm cluster is removed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
