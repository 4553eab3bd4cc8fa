"""Queries the states of jobs: the queue in one call; ended jobs from memory or accounting."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bursar.engines.slurm.commands.commands import Commands, SlurmRefused
from bursar.slurm_text import expand_hosts, parse_records

ACTIVE = frozenset(
    {"PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "SIGNALING"}
    | {"RESIZING", "STAGE_OUT", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"}
)
NODE_LOST = frozenset({"NODE_FAIL", "BOOT_FAIL"})
EXTERNAL_CAUSES = {
    "TIMEOUT": "it exceeded its time limit in Slurm",
    "DEADLINE": "it missed its deadline in Slurm",
    "OUT_OF_MEMORY": "Slurm killed it because it used more memory than it requested",
    "PREEMPTED": "Slurm preempted it for another job",
    "NODE_FAIL": "lost: its node failed",
    "BOOT_FAIL": "lost: its node did not start",
    "REVOKED": "it was revoked in Slurm",
}
QUERY_ALL_FROM = 20
"""From this number of jobs on, all jobs in slurmctld's memory are queried at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmQueueEntry:
    """A pending or running job."""

    id: str
    state: str
    reason: str
    nodes: tuple[str, ...]
    comment: str

    @property
    def holds_nodes(self) -> bool:
        return self.state != "PENDING"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJobState:
    """The state of a job in Slurm."""

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
    def external_cause(self) -> str:
        """Why the job ended, for the user, if it did not end by itself; else ""."""
        if self.state.startswith("CANCELLED"):
            return "it was cancelled in Slurm, not by Bursar"
        return EXTERNAL_CAUSES.get(self.state, "")


def queue(commands: Commands) -> list[SlurmQueueEntry]:
    """All pending and running jobs, ours and others'. The comment is last: it may contain any text."""
    text = commands.run("squeue", "-a", "-h", "-r", "-o", "%i|%T|%r|%N|%k")
    return [
        SlurmQueueEntry(
            id=leader(job_id),
            state=state,
            reason=reason,
            nodes=expand_hosts(nodes) if "(" not in nodes else (),
            comment=comment,
        )
        for job_id, state, reason, nodes, comment in _rows(text)
    ]


def leader(job_id: str) -> str:
    """The id of a whole heterogeneous job: ``12+1`` is a component of ``12``."""
    return job_id.partition("+")[0]


def query_job_states(commands: Commands, ids: Iterable[str]) -> dict[str, SlurmJobState]:
    """States of jobs that have left the queue, by id. Jobs that Slurm does not know are omitted."""
    job_ids = list(ids)
    states: dict[str, SlurmJobState] = {}
    if len(job_ids) >= QUERY_ALL_FROM:
        states = _from_memory(commands, ())
    else:
        for job_id in job_ids:
            states |= _from_memory(commands, (job_id,))
    absent = [job_id for job_id in job_ids if job_id not in states]
    if absent:
        states |= _from_accounting(commands, absent)
    return {job_id: states[job_id] for job_id in job_ids if job_id in states}


def _from_memory(commands: Commands, ids: tuple[str, ...]) -> dict[str, SlurmJobState]:
    try:
        text = commands.run("scontrol", "-o", "show", "job", *ids)
    except SlurmRefused:
        return {}
    states: dict[str, SlurmJobState] = {}
    for record in parse_records(text):
        job_id = record.get("HetJobId", "") or record.get("JobId", "")
        state = _job_state(record)
        # A component that did not complete determines the state of the job.
        if job_id not in states or (
            states[job_id].state == "COMPLETED" and state.state != "COMPLETED"
        ):
            states[job_id] = state
    return states


def _job_state(record: Mapping[str, str]) -> SlurmJobState:
    code, _, number = record.get("ExitCode", "0:0").partition(":")
    return SlurmJobState(
        state=record.get("JobState", "UNKNOWN"),
        code=_number(code),
        signal=_number(number),
        reason=record.get("Reason", ""),
        nodes=expand_hosts(record.get("NodeList", "")),
        comment=record.get("Comment", ""),
    )


def _from_accounting(commands: Commands, ids: list[str]) -> dict[str, SlurmJobState]:
    """From the accounting database, if there is one."""
    try:
        text = commands.run(
            *("sacct", "-n", "-P", "-X", "-j", ",".join(ids)),
            *("-o", "JobID,State,ExitCode,NodeList,Comment"),
        )
    except SlurmRefused:
        return {}
    states: dict[str, SlurmJobState] = {}
    for job_id, state, exit_code, nodes, comment in _rows(text):
        code, _, number = exit_code.partition(":")
        states[leader(job_id)] = SlurmJobState(
            state=state.split(" ")[0],
            code=_number(code),
            signal=_number(number),
            nodes=expand_hosts(nodes),
            comment=comment,
        )
    return states


def _rows(text: str) -> list[list[str]]:
    """Complete lines of five columns, of which the last may contain the separator."""
    rows = (line.split("|", 4) for line in text.splitlines())
    return [columns for columns in rows if len(columns) == 5]


def _number(text: str) -> int:
    return int(text) if re.fullmatch(r"\d{1,9}", text) else 0
