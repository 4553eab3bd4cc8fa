"""Two teams, sixteen nodes, training and inference: the whole story on a Slurm of its own, from one command.

    python examples/slurm-multitenant/run.py

Starts a real Slurm on this machine (pretended GPUs, loopback only), writes its accounts, shares, QOS, limits
and partitions from fleet.yaml, fills it with research's jobs, lets inference take back what is its own, and
ends with what everybody used. Nothing is left behind.
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

from bursar.cli.main import main as main_of_bursar

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))  # the lab comes with the checkout, not with the package

from tests.support.slurm_lab.lab import Lab  # noqa: E402
from tests.support.slurm_lab.lab_spec import LabPlan, a100_nodes, t4_nodes  # noqa: E402

FLEET = str(HERE / "fleet.yaml")
USERS = ("alice=research-training", "carol=product-training", "dave=product-inference")
TRAINING_JOBS, FINETUNE_JOBS, SERVING_JOBS = 10, 2, 3
PATIENCE_SECONDS = 120
LONG_SECONDS = 330
"""How long jobs run if nobody ends them: the story does, when it has seen what it wants to show, so that it
is the same on a slow machine."""
WORK_SECONDS = 4
"""What everybody gets done before inference comes: some of it will be lost, and is on the bill."""


@dataclass
class Story:
    """What came of it, for whoever wants to check."""

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


def bursar(*words: str) -> str:
    """Our own command, and what it prints; in this process, to be quick."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(io.StringIO()) as complaint:
        code = main_of_bursar(list(words))
    if code:
        sys.exit(f"bursar {' '.join(words)}: {complaint.getvalue().strip()}")
    return said.getvalue()


def plan() -> LabPlan:
    """The lab's slurm.conf ends with what the fleet calls for."""
    conf = json.loads(bursar("render", "slurm", "--fleet", FLEET, "--json"))["slurm_conf"]
    return LabPlan(
        nodes=(*t4_nodes(12), *a100_nodes(4)),
        partitions=(),
        rest=False,
        enforce="associations,limits,qos",
        preempt="PreemptType=preempt/qos",
        slurm_conf=tuple(line for line in conf.splitlines() if not line.startswith("#")),
    )


def play(lab: Lab, tell: Callable[[str], None]) -> Story:
    """From an empty accounting database to the bill."""
    story = Story()
    os.environ.update(lab.environment())  # Slurm's commands, ours included, now find this one
    users = [word for user in USERS for word in ("--user", user)]
    apply = ("render", "slurm", "--fleet", FLEET, *users, "--grace", "0", "--apply", "--yes")
    story.applied = json.loads(bursar(*apply, "--json"))
    story.applied_again = json.loads(bursar(*apply, "--json"))
    tell(
        f"1. {len(story.applied['changes'])} changes by sacctmgr, then {len(story.applied_again['changes'])}"
    )
    _fill(lab, story)
    tell(f"2. research and product run on {story.held_before} GPUs by QOS")
    _serve(lab, story)
    tell(f"3. inference took back its own: {story.held_after}")
    _wait(lambda: bool(_blocked(lab)), "no job waits for room")
    waiting = _blocked(lab)[0]
    story.why = bursar("why", waiting)
    tell(f"4. bursar why {waiting}:\n{story.why.rstrip()}")
    _end(lab, story)
    text = lab.run("sacct", "-P", "-n", "-D", "-X", "-a", "-o", "JobID,QOS,State,NNodes,Start,End")
    story.runs = [line.split("|") for line in text.splitlines()]
    story.usage = json.loads(bursar("slurm", "usage", "--fleet", FLEET, "--json"))
    tell("5. what everybody used:")
    tell(bursar("slurm", "usage", "--fleet", FLEET).rstrip())
    return story


def _fill(lab: Lab, story: Story) -> None:
    """Research beyond its own quota, product within."""
    for file, user, count, ids in (
        ("train.yaml", "alice", TRAINING_JOBS, story.trained),
        ("finetune.yaml", "carol", FINETUNE_JOBS, story.finetuned),
    ):
        for _ in range(count):
            words = (
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
                f"OVER={_over(lab)}",
                "--json",
            )
            route = json.loads(bursar("slurm", "submit", *words))
            story.routes.append(route)
            ids.append(route["job"])
    everybody = [*story.trained, *story.finetuned]
    _wait(lambda: _states(lab, everybody) == {"RUNNING"}, "not all jobs started")
    story.held_before = held_by_qos(lab)
    time.sleep(WORK_SECONDS)


def _serve(lab: Lab, story: Story) -> None:
    """One server after the other: for several at once Slurm may stop more than they need."""
    around = f"--export=ALL,SECONDS_TO_SERVE={LONG_SECONDS},OVER={_over(lab)}"
    for _ in range(SERVING_JOBS):
        said = lab.run("sbatch", "--parsable", "--uid=dave", around, str(HERE / "serve.sbatch"))
        story.served.append(said.strip())
        _wait(
            lambda: _states(lab, story.served) == {"RUNNING"}, "inference did not get its own quota"
        )
    story.held_after = held_by_qos(lab)


def _end(lab: Lab, story: Story) -> None:
    """Let all jobs end, those that were requeued too, and let Slurm's accounting hear of it."""
    _over(lab).touch()
    everybody = [*story.trained, *story.finetuned, *story.served]
    _wait(lambda: not _states(lab, everybody), "not all jobs ended")
    _wait(lambda: not _unbooked(lab), "Slurm's accounting did not hear of all ends")


def _over(lab: Lab) -> Path:
    """The file that tells jobs to end."""
    return lab.folder / "work" / "over"


def _unbooked(lab: Lab) -> bool:
    """Whether accounting still takes a job for one that runs or waits."""
    said = lab.run("sacct", "-n", "-X", "-a", "-P", "-o", "State,End").splitlines()
    return any(line.startswith(("RUNNING", "PENDING")) or "Unknown" in line for line in said)


def held_by_qos(lab: Lab) -> dict[str, int]:
    """GPUs that the running jobs of each QOS hold."""
    found: dict[str, int] = {}
    for line in lab.run("squeue", "-h", "-t", "R", "-o", "%q|%b").splitlines():
        qos, gres = line.split("|")
        found[qos] = found.get(qos, 0) + int(gres.rpartition(":")[2])
    return dict(sorted(found.items()))


def _states(lab: Lab, ids: Sequence[str]) -> set[str]:
    """Of those that are not over."""
    lines = lab.run("squeue", "-h", "-o", "%i|%T").splitlines()
    return {line.split("|")[1] for line in lines if line.split("|")[0] in ids}


def _blocked(lab: Lab) -> list[str]:
    """Jobs that wait for room; right after it was preempted a job waits a few seconds for itself."""
    lines = lab.run("squeue", "-h", "-t", "PD", "-o", "%i|%r").splitlines()
    return [line.split("|")[0] for line in lines if line.split("|")[1] in ("Resources", "Priority")]


def _wait(condition: Callable[[], bool], problem: str) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > until:
            sys.exit(f"{problem} within {PATIENCE_SECONDS} s")
        time.sleep(0.5)


def main() -> int:
    """A lab of its own, the story, and nothing left."""
    began = time.monotonic()
    lab = Lab(Path(tempfile.mkdtemp(prefix="bursar-slurm-")), plan())
    lab.start()
    try:
        print(f"0. a Slurm with 16 nodes and 80 GPUs is up after {time.monotonic() - began:.1f} s")
        play(lab, print)
    finally:
        lab.stop()
    print(f"done after {time.monotonic() - began:.1f} s; the Slurm is gone")
    return 0


if __name__ == "__main__":
    sys.exit(main())
