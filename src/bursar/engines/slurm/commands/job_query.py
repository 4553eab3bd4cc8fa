"""What Slurm says about jobs: those that wait or run in one question, those that are gone one by one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bursar.engines.slurm.commands.commands import Commands, SlurmRefused
from bursar.engines.slurm.commands.hostlist import expand
from bursar.engines.slurm.commands.inventory import parse_records

ACTIVE = frozenset(
    {"PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "SIGNALING"}
    | {"RESIZING", "STAGE_OUT", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"}
)
NODE_LOST = frozenset({"NODE_FAIL", "BOOT_FAIL"})
ALL_AT_ONCE_FROM = 20
"""From so many jobs on Slurm is asked for all it has in memory rather than for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLine:
    """A job that waits or runs."""

    id: str
    state: str
    reason: str
    nodes: tuple[str, ...]
    comment: str

    @property
    def holds(self) -> bool:
        """Whether it holds something of its nodes."""
        return self.state != "PENDING"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJobState:
    """How Slurm says that a job stands."""

    state: str
    code: int
    signal: int
    reason: str = ""
    nodes: tuple[str, ...] = ()
    comment: str = ""

    @property
    def is_over(self) -> bool:
        return self.state not in ACTIVE

    @property
    def words(self) -> str:
        """What it was, for a user, where it was not the job's own doing; else nothing."""
        known = {
            "TIMEOUT": "it was over its time limit in Slurm",
            "DEADLINE": "it was over its deadline in Slurm",
            "OUT_OF_MEMORY": "Slurm ended it because it used more memory than it asked for",
            "PREEMPTED": "Slurm preempted it for another job",
            "NODE_FAIL": "lost: its node failed",
            "BOOT_FAIL": "lost: its node did not start",
            "REVOKED": "it was revoked in Slurm",
        }
        if self.state.startswith("CANCELLED"):
            return "it was cancelled in Slurm, not by Bursar"
        return known.get(self.state, "")


def queue(commands: Commands) -> list[QueueLine]:
    """Everything that waits or runs, ours and others'. The comment may contain anything, so it is last."""
    text = commands.run("squeue", "-a", "-h", "-r", "-o", "%i|%T|%r|%N|%k")
    found = []
    for line in text.splitlines():
        parts = line.split("|", 4)
        if len(parts) == 5:
            ident, state, reason, nodes, comment = parts
            found.append(
                QueueLine(
                    id=leader(ident),
                    state=state,
                    reason=reason,
                    nodes=expand(nodes) if "(" not in nodes else (),
                    comment=comment,
                )
            )
    return found


def leader(ident: str) -> str:
    """The id that stands for all parts of a heterogeneous job: ``12+1`` is a part of ``12``."""
    return ident.partition("+")[0]


def fates(commands: Commands, ids: Iterable[str]) -> dict[str, SlurmJobState]:
    """Of jobs that are not in the queue any more. Those that Slurm knows nothing of are not in it."""
    wanted = list(ids)
    found: dict[str, SlurmJobState] = {}
    if len(wanted) >= ALL_AT_ONCE_FROM:
        found = _in_memory(commands, ())
    else:
        for ident in wanted:
            found |= _in_memory(commands, (ident,))
    absent = [ident for ident in wanted if ident not in found]
    if absent:
        found |= _recorded(commands, absent)
    return {ident: found[ident] for ident in wanted if ident in found}


def _in_memory(commands: Commands, words: tuple[str, ...]) -> dict[str, SlurmJobState]:
    try:
        text = commands.run("scontrol", "-o", "show", "job", *words)
    except SlurmRefused:
        return {}
    found: dict[str, SlurmJobState] = {}
    for said in parse_records(text):
        ident = said.get("HetJobId", "") or said.get("JobId", "")
        fate = _fate(said)
        # The part that went wrong speaks for the whole.
        if ident not in found or (found[ident].state == "COMPLETED" and fate.state != "COMPLETED"):
            found[ident] = fate
    return found


def _fate(said: Mapping[str, str]) -> SlurmJobState:
    code, _, number = said.get("ExitCode", "0:0").partition(":")
    return SlurmJobState(
        state=said.get("JobState", "UNKNOWN"),
        code=_whole(code),
        signal=_whole(number),
        reason=said.get("Reason", ""),
        nodes=expand(said.get("NodeList", "")),
        comment=said.get("Comment", ""),
    )


def _recorded(commands: Commands, ids: list[str]) -> dict[str, SlurmJobState]:
    """From the accounting database, where there is one."""
    try:
        text = commands.run(
            *("sacct", "-n", "-P", "-X", "-j", ",".join(ids)),
            *("-o", "JobID,State,ExitCode,NodeList,Comment"),
        )
    except SlurmRefused:
        return {}
    found: dict[str, SlurmJobState] = {}
    for line in text.splitlines():
        parts = line.split("|", 4)
        if len(parts) == 5:
            code, _, number = parts[2].partition(":")
            found[leader(parts[0])] = SlurmJobState(
                state=parts[1].split(" ")[0],
                code=_whole(code),
                signal=_whole(number),
                nodes=expand(parts[3]),
                comment=parts[4],
            )
    return found


def _whole(text: str) -> int:
    return int(text) if re.fullmatch(r"\d{1,9}", text) else 0
