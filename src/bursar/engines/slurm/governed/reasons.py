"""Why Slurm does not start a job: every code of 22.05 in our words, and what to do about it.

About a hundred and forty codes say which limit is reached; they are put together by Slurm from few parts
and are taken apart here again. The rest stand in a table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class StartCondition(StrEnum):
    """What has to happen before the job can start."""

    WAITS = "waits"
    """Time alone: others end, a moment comes."""
    USER = "user"
    """Its user must change or release it."""
    OPERATOR = "operator"
    """Whoever runs the cluster must act, or whoever sets the limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit that is reached. ``field`` is where Slurm keeps it, ``resource`` which part of it."""

    scope: str
    """``qos`` or ``account``: whose limit it is."""
    field: str
    resource: str
    per: str
    """``job``, ``node``, ``user``, ``account``, or empty: all together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonMeaning:
    """A code explained. ``{qos}``, ``{account}`` and ``{partition}`` stand for those of the job."""

    code: str
    why: str
    do: str
    outlook: StartCondition
    limit: Limit | None = None


_W, _U, _O = StartCondition.WAITS, StartCondition.USER, StartCondition.OPERATOR
_CANCEL = "Cancel it and submit it again as it should be."
_ADMIN = "Ask whoever runs the cluster."
_WAIT = "Nothing: it starts by itself."

_TABLE: dict[str, tuple[str, str, StartCondition]] = {
    "None": ("Slurm has not looked at it yet", _WAIT, _W),
    "WaitingForScheduling": ("Slurm has not looked at it yet", _WAIT, _W),
    "SchedDefer": ("Slurm was told to look at it later than at submission", _WAIT, _W),
    "Resources": (
        "what it asks for is not free in {partition}; it is the next for it",
        "Ask for fewer GPUs or nodes, or for less time, so that it fits into a gap.",
        _W,
    ),
    "Priority": (
        "other jobs of {partition} go before it",
        "A shorter --time may let it fill a gap before they start.",
        _W,
    ),
    "Dependency": ("jobs that it waits for are not over", _WAIT, _W),
    "DependencyNeverSatisfied": (
        "a job that it waits for ended otherwise than it demands, so it never starts",
        _CANCEL,
        _U,
    ),
    "BeginTime": ("its begin time has not come, or it was requeued a moment ago", _WAIT, _W),
    "Licenses": ("licenses that it asks for are in use", _WAIT, _W),
    "Reservation": ("the reservation that it names has not begun, or is in use", _WAIT, _W),
    "ReservationDeleted": ("the reservation that it names is gone", _CANCEL, _U),
    "JobHeldUser": ("its user holds it", "Release it: 'scontrol release {job}'.", _U),
    "JobHeldAdmin": ("an operator holds it", _ADMIN, _O),
    "JobHoldMaxRequeue": (
        "it was requeued as often as the cluster allows and is held",
        "Look at why it fails, then 'scontrol release {job}'.",
        _U,
    ),
    "JobArrayTaskLimit": (
        "as many tasks of its array run as it allows itself",
        "Raise the number after % in --array, or wait.",
        _W,
    ),
    "PartitionDown": ("{partition} is closed: jobs may wait there but none starts", _ADMIN, _O),
    "PartitionInactive": ("{partition} is out of use", "Name another partition.", _U),
    "PartitionNodeLimit": (
        "it asks for more or fewer nodes than {partition} allows or has in use",
        "Ask for another number of nodes, or for another partition.",
        _U,
    ),
    "PartitionTimeLimit": (
        "it asks for more time than {partition} allows",
        "Ask for a shorter --time: 'scontrol update job {job} TimeLimit=...'.",
        _U,
    ),
    "PartitionConfig": (
        "what it asks for is not allowed by how {partition} is set up",
        "Ask for something that {partition} has, or name another partition.",
        _U,
    ),
    "ReqNodeNotAvail": (
        "nodes that it needs are down, drained or reserved",
        "Leave out --nodelist, or wait for them; 'sinfo -R' says why they are away.",
        _O,
    ),
    "NodeDown": ("a node that it needs is down", "'sinfo -R' says why. " + _ADMIN, _O),
    "FrontEndDown": ("no front end of the cluster is up", _ADMIN, _O),
    "BadConstraints": (
        "no node has all that it asks for",
        "Look at --constraint, --gres, --mem and --cpus-per-task; 'sinfo -N -l' lists nodes.",
        _U,
    ),
    "SystemFailure": ("Slurm or a node of it failed while it started", _ADMIN, _O),
    "JobLaunchFailure": (
        "it could not be launched (a missing program, a full disk, a failed prolog) and is held",
        "Put that right, then 'scontrol release {job}'.",
        _U,
    ),
    "NonZeroExitCode": ("it ended with a code other than 0", "Look at its output.", _U),
    "TimeLimit": ("it reached its time limit", "Submit it again with a longer --time.", _U),
    "InactiveLimit": ("it did nothing for longer than the cluster allows", _CANCEL, _U),
    "OutOfMemory": ("it used more memory than it asked for", "Submit it with more --mem.", _U),
    "DeadLine": ("it cannot end before its own deadline", _CANCEL, _U),
    "Cleaning": ("its last run is still being cleaned up", _WAIT, _W),
    "Prolog": ("the prolog of its nodes runs", _WAIT, _W),
    "InvalidAccount": ("its account {account} is not known or not its user's", _CANCEL, _U),
    "InvalidQOS": ("its QOS {qos} is not known or not open to {account}", _CANCEL, _U),
    "QOSNotAllowed": (
        "{qos} may not be used by {account} or in {partition}",
        "Name another QOS: 'sacctmgr show assoc account={account} format=qos' lists them.",
        _U,
    ),
    "AccountNotAllowed": ("{account} may not use {partition}", "Name another partition.", _U),
    "QOSUsageThreshold": (
        "{account} has used so much that its share is below what {qos} demands",
        "Wait until past usage has faded, or use another QOS.",
        _W,
    ),
    "QOSJobLimit": ("{qos} has as many jobs as it may have", _WAIT, _W),
    "QOSResourceLimit": ("{qos} holds as much as it may hold", _WAIT, _W),
    "QOSTimeLimit": ("{qos} has used as much time as it may use", _ADMIN, _O),
    "AssociationJobLimit": ("{account} has as many jobs as it may have", _WAIT, _W),
    "AssociationResourceLimit": ("{account} holds as much as it may hold", _WAIT, _W),
    "AssociationTimeLimit": ("{account} has used as much time as it may use", _ADMIN, _O),
    "AccountingPolicy": ("a limit of {account} or {qos} is reached", _WAIT, _W),
    "MaxMemPerLimit": (
        "it asks for more memory on a node, or for each CPU, than {partition} allows",
        "Ask for less --mem or --mem-per-cpu.",
        _U,
    ),
    "BurstBufferResources": ("there is too little room in the burst buffer", _WAIT, _W),
    "BurstBufferStageIn": ("its files are being brought to the burst buffer", _WAIT, _W),
    "BurstBufferOperation": ("the burst buffer failed", _ADMIN, _O),
    "PowerNotAvail": ("the cluster has too little power left for it", _WAIT, _W),
    "PowerReserved": ("power is reserved for others", _WAIT, _W),
    "FedJobLock": ("the clusters of the federation agree on who starts it", _WAIT, _W),
    "BlockMaxError": ("too many nodes of its block failed", _ADMIN, _O),
    "BlockFreeAction": ("its block is being freed", _WAIT, _W),
}

_LIMIT = re.compile(
    r"(?P<scope>QOS|Assoc|)(?P<span>Grp|Max|Min)"
    r"(?P<what>CPU|Cpu|Memory|Mem|Node|Energy|GRES|License|BB|Billing|Unknown"
    r"|SubmitJobs?|Jobs|WallDuration|Wall)"
    r"(?P<minutes>RunMinutes|Minutes)?(?:Per(?P<per>Job|Node|User|Account))?(?:Limit|NotSatisfied)?"
)
_WORDS = {
    "cpu": ("CPUs", "cpu"),
    "memory": ("memory", "mem"),
    "mem": ("memory", "mem"),
    "node": ("nodes", "node"),
    "energy": ("energy", "energy"),
    "gres": ("GPUs or other devices", "gres/"),
    "license": ("licenses", "license/"),
    "bb": ("burst buffer", "bb/"),
    "billing": ("billing", "billing"),
    "unknown": ("a resource that Slurm does not name", ""),
    "jobs": ("running jobs", "Jobs"),
    "submitjob": ("jobs, waiting ones included", "Submit"),
    "submitjobs": ("jobs, waiting ones included", "Submit"),
    "wall": ("run time", "Wall"),
    "wallduration": ("run time", "Wall"),
}
_PER = {"job": "PJ", "node": "PN", "user": "PU", "account": "PA", "": ""}
_COUNTS = frozenset({"Jobs", "Submit", "Wall"})


def meaning_of(code: str) -> ReasonMeaning:
    """What a code says. One that we do not know is told as it is."""
    plain = code.split(",", 1)[0].strip()
    if plain in _TABLE:
        why, do, outlook = _TABLE[plain]
        return ReasonMeaning(code=plain, why=why, do=do, outlook=outlook)
    parts = _LIMIT.fullmatch(plain)
    if parts is None:
        shown = code.replace("{", "(").replace("}", ")")
        why = f"Slurm says {shown!r}, which we have no words for"
        return ReasonMeaning(code=plain, why=why, do=_ADMIN, outlook=_O)
    return _limit(plain, parts)


def _limit(code: str, parts: re.Match[str]) -> ReasonMeaning:
    scope = "account" if parts["scope"] == "Assoc" else "qos"
    words, resource = _WORDS[parts["what"].lower()]
    per = (parts["per"] or "").lower()
    whose = "{account} or an account above it" if scope == "account" else "the QOS {qos}"
    why, do, outlook = _limit_words(parts["span"], parts["minutes"] or "", per, (whose, words))
    field = _field(parts["span"], resource, parts["minutes"] or "", per)
    limit = Limit(scope=scope, field=field, resource=resource, per=per)
    return ReasonMeaning(code=code, why=why, do=do, outlook=outlook, limit=limit)


def _field(span: str, resource: str, minutes: str, per: str) -> str:
    """Where ``scontrol show assoc_mgr`` has it."""
    if resource in _COUNTS:
        name = {"Jobs": "Jobs", "Submit": "SubmitJobs", "Wall": "Wall"}[resource]
        return f"{span}{name}{_PER[per] if per != 'job' or resource == 'Wall' else ''}"
    mins = {"Minutes": "Mins", "RunMinutes": "RunMins", "": ""}[minutes]
    return f"{span}TRES{mins}{_PER[per] or ('PJ' if span == 'Min' else '')}"


def _limit_words(
    span: str, minutes: str, per: str, named: tuple[str, str]
) -> tuple[str, str, StartCondition]:
    whose, words = named
    if span == "Min":
        return (
            f"{whose} is for jobs that ask for more {words} than this one",
            "Ask for more, or use another QOS.",
            _U,
        )
    if minutes == "RunMinutes":
        return (
            f"what runs under {whose} has so much time left to use {words} that no more may start",
            "Ask for a shorter --time, or wait for running jobs to get on.",
            _W,
        )
    if minutes and not per:
        return (
            f"{whose} has used up what it may use of {words} over time",
            "Wait until past usage has faded, or raise its budget in the fleet file and render again.",
            _O,
        )
    if per in ("job", "node"):
        each = "one job" if per == "job" else "a job on one node"
        over = " over its whole time" if minutes else ""
        return (
            f"it asks for more {words}{over} than {whose} allows {each}",
            "Ask for less; as it is, it never starts.",
            _U,
        )
    holders = {"user": f"its user's jobs in {whose}", "account": f"{{account}}'s jobs in {whose}"}
    return (
        f"{holders.get(per, f'all jobs of {whose} together')} have as much as they may have of {words}",
        "Wait until one of them ends, ask for less, or raise the quota in the fleet file and render again.",
        _W,
    )


KNOWN_CODES = tuple(sorted(_TABLE))
"""Those that stand in the table."""
