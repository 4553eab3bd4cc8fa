"""``bursar why`` for a job of Slurm: what it waits for, in numbers, when it should start, what to do.

Asks scontrol for the job and its limits, sprio and sshare for its place, squeue for who is before it and
who holds what it needs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bursar.engines.slurm.commands.commands import SlurmRefused
from bursar.engines.slurm.commands.inventory import CommandRunner
from bursar.engines.slurm.commands.tables import (
    duration_ms,
    limits_held,
    memory_mib,
    moment_ms,
    record,
    said,
    tres,
)
from bursar.engines.slurm.governed.priority_view import (
    AccountShare,
    Factors,
    read_factors,
    read_shares,
)
from bursar.engines.slurm.governed.reasons import Limit, ReasonMeaning, StartCondition, meaning_of
from bursar.model.errors import UserError
from bursar.model.units import write_duration

SHOWN_HOLDERS = 4
NEVER_ASKED = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitHeld:
    """A limit with its numbers: so much may be held, so much is."""

    whose: str
    field: str
    resource: str
    most: float
    held: float
    wanted: float | None = None

    def __str__(self) -> str:
        name = f"{self.field} {self.resource}".strip()
        told = f"{self.whose}: {name} is {self.most:g}, of which {self.held:g} are taken"
        return told if self.wanted is None else f"{told}; it asks for {self.wanted:g}"


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
    """Everything there is to say about one job of Slurm now."""

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
    """What it asks for, by Slurm's names."""
    meaning: ReasonMeaning | None = None
    limits: tuple[LimitHeld, ...] = ()
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
        """What, why, who, when, and what to do, as sentences."""
        if self.meaning is None:
            return (self._over_or_running(),)
        whose = f"account {self.account}, QOS {self.qos}, partition {self.partition}"
        first = f"{self.job_id} of {self.user} ({self.asks_for}) waits in {whose}"
        return (
            f"{first}; {self.before_it:,} of {self.waiting:,} waiting jobs there go before it.",
            f"Why: {self.meaning.why} ({self.meaning.code}).",
            *(f"Limit: {limit}." for limit in self.limits),
            *self._who(),
            *([f"Priority: {self.factors}."] if self.factors else []),
            *(f"Share: {share}." for share in self.shares),
            f"When: {self._when()}.",
            f"To do: {self.meaning.do}",
        )

    def _over_or_running(self) -> str:
        told = f"{self.job_id} of {self.user} ({self.asks_for}) of {self.account} is {self.state.lower()}"
        if self.runs_on:
            told += f" on {self.runs_on}"
        if self.ends_at_ms is not None and self.ends_at_ms > self.now_ms:
            told += f", for {write_duration(self.ends_at_ms - self.now_ms)} more at most"
        return f"{told}{f' ({self.detail})' if self.detail else ''}."

    def _who(self) -> list[str]:
        if not self.holders:
            return []
        told = [
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
        return [f"Held: {self.partition} is held by {', '.join([*told, *more])}."]

    def _when(self) -> str:
        assert self.meaning is not None
        if self.starts_at_ms is not None:
            soon = write_duration(max(0, self.starts_at_ms - self.now_ms) // 1_000 * 1_000)
            where = f" on {self.starts_on}" if self.starts_on else ""
            return f"Slurm plans to start it in {soon}{where}, or earlier if others end early"
        if self.meaning.outlook is StartCondition.WAITS:
            return "Slurm has planned no start for it yet"
        return "not before that is done"


def explain(commands: CommandRunner, job_id: str, now_ms: int) -> SlurmExplanation:
    """Ask Slurm about one job."""
    job = _job(commands, job_id)
    state = job.get("JobState", "")
    story = _plain_story(job, now_ms)
    if state not in NEVER_ASKED:
        return story
    meaning = _of_this_job(meaning_of(job.get("Reason", "None")), story)
    queue = _queue(commands, story)
    holders = queue.holders(SHOWN_HOLDERS)
    shows_holders = meaning.code in ("Resources", "Priority")
    return replace(
        story,
        meaning=meaning,
        limits=_limits(commands, meaning.limit, story) if meaning.limit else (),
        holders=holders if shows_holders else (),
        other_holders=max(0, queue.running - len(holders)) if shows_holders else 0,
        before_it=queue.before(job.get("Priority", "0"), story.job_id),
        waiting=queue.waiting,
        factors=read_factors(commands, story.job_id),
        shares=read_shares(commands, story.account, story.user),
    )


def _of_this_job(meaning: ReasonMeaning, story: SlurmExplanation) -> ReasonMeaning:
    """With the names that its sentences leave open."""
    names = {"qos": story.qos, "account": story.account, "job": story.job_id}
    names["partition"] = story.partition
    why, do = meaning.why.format(**names), meaning.do.format(**names)
    return replace(meaning, why=why, do=do)


def _job(commands: CommandRunner, job_id: str) -> dict[str, str]:
    if re.fullmatch(r"\d+(?:[_+]\d+)?", job_id) is None:
        raise UserError(
            f"{job_id!r} is not a job of Slurm.",
            fix="Give its number, as 'squeue' shows it: 1234, 1234_5 or 1234+1.",
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
    return record(text.splitlines()[0] if text.strip() else "")


def _plain_story(job: Mapping[str, str], now_ms: int) -> SlurmExplanation:
    pending = job.get("JobState", "") in NEVER_ASKED
    start_ms = moment_ms(job.get("StartTime", ""))
    return SlurmExplanation(
        job_id=_shown_id(job),
        state=job.get("JobState", ""),
        now_ms=now_ms,
        asks_for=asks_for(job),
        user=job.get("UserId", "").partition("(")[0],
        account=job.get("Account", ""),
        qos=job.get("QOS", ""),
        partition=job.get("Partition", ""),
        uid=job.get("UserId", "").partition("(")[2].rstrip(")"),
        wants=tres(said(job.get("TRES"))),
        starts_at_ms=start_ms if pending else None,
        starts_on=said(job.get("SchedNodeList")) if pending else "",
        runs_on="" if pending else said(job.get("NodeList")),
        ends_at_ms=None if pending else moment_ms(job.get("EndTime", "")),
        detail="" if pending else said(job.get("Reason")),
    )


def _shown_id(job: Mapping[str, str]) -> str:
    task = job.get("ArrayTaskId", "")
    return f"{job['ArrayJobId']}_{task}" if task.isdigit() else job.get("JobId", "")


def asks_for(job: Mapping[str, str]) -> str:
    """``16 GPUs on 2 nodes for 5 min``."""
    wanted = tres(said(job.get("TRES")))
    gpus = int(wanted.get("gres/gpu", "0"))
    nodes = int(wanted.get("node", "1"))
    what = f"{gpus} GPUs" if gpus != 1 else "1 GPU"
    told = what if gpus else f"{wanted.get('cpu', '1')} CPUs"
    told += f" on {nodes} nodes" if nodes != 1 else ""
    limit_ms = duration_ms(job.get("TimeLimit", ""))
    return f"{told} for {write_duration(limit_ms)}" if limit_ms else told


# -- the queue ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Queue:
    """Jobs of one partition."""

    ranks: tuple[tuple[int, int], ...]
    """Of those who wait: priority, highest first, and then the number, lowest first."""
    held: tuple[SlurmHolder, ...]

    @property
    def waiting(self) -> int:
        return len(self.ranks)

    @property
    def running(self) -> int:
        return len(self.held)

    def before(self, priority: str, job_id: str) -> int:
        mine = _rank(priority, job_id)
        return sum(1 for one in self.ranks if one < mine)

    def holders(self, most: int) -> tuple[SlurmHolder, ...]:
        return tuple(sorted(self.held, key=lambda one: (-one.gpus, one.job_id))[:most])


def _queue(commands: CommandRunner, story: SlurmExplanation) -> _Queue:
    asked = ("squeue", "-h", "-p", story.partition, "-t", "PD,R", "-o", "%i|%T|%Q|%a|%u|%D|%b|%e")
    ranks, held = [], []
    for line in commands.run(*asked).splitlines():
        job_id, state, priority, account, user, nodes, gres, end = line.split("|")
        if state == "PENDING":
            ranks.append(_rank(priority, job_id))
            continue
        held.append(
            SlurmHolder(
                job_id=job_id,
                account=account,
                user=user,
                gpus=gpus_each(gres) * int(nodes),
                ends_at_ms=moment_ms(end),
            )
        )
    return _Queue(ranks=tuple(ranks), held=tuple(held))


def _rank(priority: str, job_id: str) -> tuple[int, int]:
    number = re.match(r"\d+", job_id)
    return -int(priority), int(number[0]) if number else 0


def gpus_each(gres: str) -> int:
    """GPUs on each node: ``gres:gpu:t4:4`` and ``gres/gpu:2`` alike; 0 where none are named."""
    found = re.search(r"gpu(?::[^:,()]+)??(?::(\d+))?(?:[,(]|$)", gres)
    return int(found[1] or 1) if found else 0


# -- limits ------------------------------------------------------------------------------------------


def _limits(
    commands: CommandRunner, limit: Limit, story: SlurmExplanation
) -> tuple[LimitHeld, ...]:
    """The numbers of the limit that was reached, wherever it is set: in the QOS, or up the accounts."""
    if limit.scope == "qos":
        text = commands.run("scontrol", "-o", "show", "assoc_mgr", f"qos={story.qos}", "flags=qos")
        lines = [line for line in text.splitlines() if line.startswith("QOS=")]
        return tuple(
            held for line in lines for held in _of_line(line, limit, f"QOS {story.qos}", story)
        )
    text = commands.run("scontrol", "-o", "show", "assoc_mgr", "flags=assoc")
    by_account = {
        row["Account"]: (row.get("ParentAccount", ""), line)
        for line in text.splitlines()
        if line.startswith("ClusterName=") and not (row := record(line)).get("UserName")
    }
    found: list[LimitHeld] = []
    account = story.account
    while account in by_account:
        parent, line = by_account.pop(account)
        found += _of_line(line, limit, f"account {account}", story)
        account = parent.partition("(")[0]
    return tuple(found)


def _of_line(line: str, limit: Limit, whose: str, story: SlurmExplanation) -> list[LimitHeld]:
    """Limits of the field that is meant; those for users and accounts stand in brackets of their own."""
    if limit.per in ("user", "account"):
        name = re.escape(story.account if limit.per == "account" else story.uid)
        blocks = re.findall(rf"(?:^| ){name}={{(.*?)}}", line)
    else:
        blocks = [line.partition(" Account Limits=")[0]]
    return [
        LimitHeld(
            whose=whose,
            field=limit.field,
            resource=resource,
            most=most,
            held=held,
            wanted=None if "Mins" in limit.field else _wanted(story, resource),
        )
        for block in blocks
        for resource, (most, held) in _matching(record(block), limit)
    ]


def _wanted(story: SlurmExplanation, resource: str) -> float | None:
    amount = story.wants.get(resource)
    if amount is None:
        return None
    return float(memory_mib(amount)) if resource == "mem" else float(amount)


def _matching(fields: Mapping[str, str], limit: Limit) -> list[tuple[str, tuple[float, float]]]:
    value = fields.get(limit.field, "")
    if limit.resource in ("Jobs", "Submit", "Wall"):
        return [("", pair) for pair in limits_held(f"it={value}").values()]
    return [
        (name, pair)
        for name, pair in limits_held(value).items()
        if not limit.resource or name.startswith(limit.resource)
    ]
