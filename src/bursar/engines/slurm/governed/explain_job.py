"""Explains why a Slurm job is pending, when it should start, and what to do (``bursar why``).

Queries scontrol for the job and its limits, sprio and sshare for its priority, and squeue for the jobs ahead
of it and those that hold the resources.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bursar.engines.slurm.commands.commands import SlurmRefused
from bursar.engines.slurm.commands.gres import parse_gres
from bursar.engines.slurm.commands.inventory import CommandRunner
from bursar.engines.slurm.governed.priority_view import (
    AccountShare,
    Factors,
    read_factors,
    read_shares,
)
from bursar.engines.slurm.governed.reasons import Limit, ReasonMeaning, StartCondition, meaning_of
from bursar.model.errors import UserError
from bursar.model.units import write_duration
from bursar.slurm_text import (
    parse_duration_ms,
    parse_limit_usage,
    parse_memory_mib,
    parse_record,
    parse_time_ms,
    parse_tres,
    value_or_empty,
)

SHOWN_HOLDERS = 4
PENDING_STATES = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitUsage:
    """A limit and its usage."""

    whose: str
    field: str
    resource: str
    most: float
    held: float
    wanted: float | None = None

    def __str__(self) -> str:
        name = f"{self.field} {self.resource}".strip()
        text = f"{self.whose}: {name} is {self.most:g}, of which {self.held:g} are in use"
        return text if self.wanted is None else f"{text}; it requests {self.wanted:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmHolder:
    """A running job of the same partition."""

    job_id: str
    account: str
    user: str
    gpus: int
    ends_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmExplanation:
    """The explanation of one Slurm job."""

    job_id: str
    state: str
    now_ms: int
    asks_for: str
    user: str
    account: str
    qos: str
    partition: str
    uid: str = ""
    wants: Mapping[str, str] = field(default_factory=dict)
    """Requested resources by Slurm's names."""
    meaning: ReasonMeaning | None = None
    limits: tuple[LimitUsage, ...] = ()
    holders: tuple[SlurmHolder, ...] = ()
    other_holders: int = 0
    before_it: int = 0
    waiting: int = 0
    factors: Factors | None = None
    shares: tuple[AccountShare, ...] = ()
    starts_at_ms: int | None = None
    starts_on: str = ""
    runs_on: str = ""
    ends_at_ms: int | None = None
    detail: str = ""

    def lines(self) -> tuple[str, ...]:
        """The explanation as sentences."""
        if self.meaning is None:
            return (self._state_line(),)
        where = f"account {self.account}, QOS {self.qos}, partition {self.partition}"
        first = f"{self.job_id} of {self.user} ({self.asks_for}) is pending in {where}"
        return (
            f"{first}; {self.before_it:,} of {self.waiting:,} pending jobs are ahead of it.",
            f"Why: {self.meaning.why} ({self.meaning.code}).",
            *(f"Limit: {limit}." for limit in self.limits),
            *self._holder_line(),
            *([f"Priority: {self.factors}."] if self.factors else []),
            *(f"Share: {share}." for share in self.shares),
            f"When: {self._when()}.",
            f"To do: {self.meaning.do}",
        )

    def _state_line(self) -> str:
        text = f"{self.job_id} of {self.user} ({self.asks_for}) of {self.account} is {self.state.lower()}"
        if self.runs_on:
            text += f" on {self.runs_on}"
        if self.ends_at_ms is not None and self.ends_at_ms > self.now_ms:
            text += f", for {write_duration(self.ends_at_ms - self.now_ms)} more at most"
        return f"{text}{f' ({self.detail})' if self.detail else ''}."

    def _holder_line(self) -> list[str]:
        if not self.holders:
            return []
        holders = [
            f"{one.job_id} of {one.account} ({one.gpus} GPUs"
            + (
                f", {write_duration(max(0, one.ends_at_ms - self.now_ms))} left"
                if one.ends_at_ms
                else ""
            )
            + ")"
            for one in self.holders
        ]
        more = [f"{self.other_holders:,} more"] if self.other_holders else []
        return [f"Held: {self.partition} is in use by {', '.join([*holders, *more])}."]

    def _when(self) -> str:
        assert self.meaning is not None
        if self.starts_at_ms is not None:
            soon = write_duration(max(0, self.starts_at_ms - self.now_ms) // 1_000 * 1_000)
            where = f" on {self.starts_on}" if self.starts_on else ""
            return f"Slurm plans to start it in {soon}{where}, or sooner if other jobs end early"
        if self.meaning.outlook is StartCondition.WAITS:
            return "Slurm has not planned its start yet"
        return "not before that is done"


def explain(commands: CommandRunner, job_id: str, now_ms: int) -> SlurmExplanation:
    """Explain one job."""
    job = _job(commands, job_id)
    about = _describe(job, now_ms)
    if job.get("JobState", "") not in PENDING_STATES:
        return about
    meaning = _with_names(meaning_of(job.get("Reason", "None")), about)
    ranks, running = _queue(commands, about)
    own_rank = _rank(job.get("Priority", "0"), about.job_id)
    holders = running if meaning.code in ("Resources", "Priority") else []
    return replace(
        about,
        meaning=meaning,
        limits=_limits(commands, meaning.limit, about) if meaning.limit else (),
        holders=tuple(holders[:SHOWN_HOLDERS]),
        other_holders=len(holders[SHOWN_HOLDERS:]),
        before_it=sum(rank < own_rank for rank in ranks),
        waiting=len(ranks),
        factors=read_factors(commands, about.job_id),
        shares=read_shares(commands, about.account, about.user),
    )


def _with_names(meaning: ReasonMeaning, about: SlurmExplanation) -> ReasonMeaning:
    """Fill in the names of the job's QOS, account and partition."""
    names = {"qos": about.qos, "account": about.account, "job": about.job_id}
    names["partition"] = about.partition
    why, do = meaning.why.format(**names), meaning.do.format(**names)
    return replace(meaning, why=why, do=do)


def _job(commands: CommandRunner, job_id: str) -> dict[str, str]:
    if re.fullmatch(r"\d+(?:[_+]\d+)?", job_id) is None:
        raise UserError(
            f"{job_id!r} is not the id of a Slurm job.",
            fix="Pass its number as 'squeue' shows it: 1234, 1234_5 or 1234+1.",
            code="no-such-job",
        )
    try:
        text = commands.run("scontrol", "-o", "show", "job", job_id)
    except SlurmRefused as error:
        raise UserError(
            f"Slurm has no job {job_id} in memory.",
            fix=f"'sacct -j {job_id}' shows jobs that ended some time ago.",
            code="no-such-job",
        ) from error
    return parse_record(text.splitlines()[0] if text.strip() else "")


def _describe(job: Mapping[str, str], now_ms: int) -> SlurmExplanation:
    pending = job.get("JobState", "") in PENDING_STATES
    start_ms = parse_time_ms(job.get("StartTime", ""))
    return SlurmExplanation(
        job_id=_shown_id(job),
        state=job.get("JobState", ""),
        now_ms=now_ms,
        asks_for=request_text(job),
        user=job.get("UserId", "").partition("(")[0],
        account=job.get("Account", ""),
        qos=job.get("QOS", ""),
        partition=job.get("Partition", ""),
        uid=job.get("UserId", "").partition("(")[2].rstrip(")"),
        wants=parse_tres(value_or_empty(job.get("TRES"))),
        starts_at_ms=start_ms if pending else None,
        starts_on=value_or_empty(job.get("SchedNodeList")) if pending else "",
        runs_on="" if pending else value_or_empty(job.get("NodeList")),
        ends_at_ms=None if pending else parse_time_ms(job.get("EndTime", "")),
        detail="" if pending else value_or_empty(job.get("Reason")),
    )


def _shown_id(job: Mapping[str, str]) -> str:
    task = job.get("ArrayTaskId", "")
    return f"{job['ArrayJobId']}_{task}" if task.isdigit() else job.get("JobId", "")


def request_text(job: Mapping[str, str]) -> str:
    """``16 GPUs on 2 nodes for 5 min``."""
    requested = parse_tres(value_or_empty(job.get("TRES")))
    gpus = int(requested.get("gres/gpu", "0"))
    nodes = int(requested.get("node", "1"))
    gpu_text = f"{gpus} GPUs" if gpus != 1 else "1 GPU"
    text = gpu_text if gpus else f"{requested.get('cpu', '1')} CPUs"
    text += f" on {nodes} nodes" if nodes != 1 else ""
    limit_ms = parse_duration_ms(job.get("TimeLimit", ""))
    return f"{text} for {write_duration(limit_ms)}" if limit_ms else text


# -- the queue ---------------------------------------------------------------------------------------


Rank = tuple[int, int]
"""Order of pending jobs: highest priority first, then lowest job id."""


def _queue(
    commands: CommandRunner, about: SlurmExplanation
) -> tuple[list[Rank], list[SlurmHolder]]:
    """Ranks of the partition's pending jobs, and its running jobs, largest first."""
    argv = ("squeue", "-h", "-p", about.partition, "-t", "PD,R", "-o", "%i|%T|%Q|%a|%u|%D|%b|%e")
    ranks: list[Rank] = []
    running: list[SlurmHolder] = []
    for line in commands.run(*argv).splitlines():
        job_id, state, priority, account, user, nodes, gres, end = line.split("|")
        if state == "PENDING":
            ranks.append(_rank(priority, job_id))
            continue
        running.append(
            SlurmHolder(
                job_id=job_id,
                account=account,
                user=user,
                gpus=gpus_per_node(gres) * int(nodes),
                ends_at_ms=parse_time_ms(end),
            )
        )
    return ranks, sorted(running, key=lambda one: (-one.gpus, one.job_id))


def _rank(priority: str, job_id: str) -> Rank:
    number = re.match(r"\d+", job_id)
    return -int(priority), int(number[0]) if number else 0


def gpus_per_node(gres: str) -> int:
    """GPUs on each node: of ``gres:gpu:t4:4`` or ``gres/gpu:2``; 0 if none are named."""
    return sum(one.count for one in parse_gres(gres) if one.name == "gpu")


# -- limits ------------------------------------------------------------------------------------------


def _limits(
    commands: CommandRunner, limit: Limit, about: SlurmExplanation
) -> tuple[LimitUsage, ...]:
    """Values of the limit that was reached, wherever it is set: in the QOS, or along the accounts."""
    if limit.scope == "qos":
        text = commands.run("scontrol", "-o", "show", "assoc_mgr", f"qos={about.qos}", "flags=qos")
        lines = [line for line in text.splitlines() if line.startswith("QOS=")]
        return tuple(
            usage
            for line in lines
            for usage in _line_limits(line, limit, f"QOS {about.qos}", about)
        )
    text = commands.run("scontrol", "-o", "show", "assoc_mgr", "flags=assoc")
    by_account = {
        row["Account"]: (row.get("ParentAccount", ""), line)
        for line in text.splitlines()
        if line.startswith("ClusterName=") and not (row := parse_record(line)).get("UserName")
    }
    limits: list[LimitUsage] = []
    account = about.account
    while account in by_account:
        parent, line = by_account.pop(account)
        limits += _line_limits(line, limit, f"account {account}", about)
        account = parent.partition("(")[0]
    return tuple(limits)


def _line_limits(line: str, limit: Limit, whose: str, about: SlurmExplanation) -> list[LimitUsage]:
    """Limits of one field of a line; those of users and accounts are in their own brackets."""
    if limit.per in ("user", "account"):
        name = re.escape(about.account if limit.per == "account" else about.uid)
        blocks = re.findall(rf"(?:^| ){name}={{(.*?)}}", line)
    else:
        blocks = [line.partition(" Account Limits=")[0]]
    return [
        LimitUsage(
            whose=whose,
            field=limit.field,
            resource=resource,
            most=most,
            held=held,
            wanted=None if "Mins" in limit.field else _requested(about, resource),
        )
        for block in blocks
        for resource, (most, held) in _matching(parse_record(block), limit)
    ]


def _requested(about: SlurmExplanation, resource: str) -> float | None:
    amount = about.wants.get(resource)
    if amount is None:
        return None
    return float(round(parse_memory_mib(amount))) if resource == "mem" else float(amount)


def _matching(fields: Mapping[str, str], limit: Limit) -> list[tuple[str, tuple[float, float]]]:
    value = fields.get(limit.field, "")
    if limit.resource in ("Jobs", "Submit", "Wall"):
        return [("", pair) for pair in parse_limit_usage(f"it={value}").values()]
    return [
        (name, pair)
        for name, pair in parse_limit_usage(value).items()
        if not limit.resource or name.startswith(limit.resource)
    ]
