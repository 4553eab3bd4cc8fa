"""Explains Slurm's pending reasons: every code of 22.05, and what to do about it.

About 140 codes name a limit that is reached; Slurm composes them from few components, which are parsed here.
The others are in a table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class StartCondition(StrEnum):
    """What has to happen before the job can start."""

    WAITS = "waits"
    """Time passes: other jobs end, or a time is reached."""
    USER = "user"
    """The user changes or releases the job."""
    OPERATOR = "operator"
    """An operator or administrator acts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit that is reached: ``field`` of Slurm's records, and the ``resource`` in it."""

    scope: str
    """``qos`` or ``account``: the owner of the limit."""
    field: str
    resource: str
    per: str
    """``job``, ``node``, ``user``, ``account``, or empty for all jobs together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonMeaning:
    """The explanation of a code, with placeholders ``{qos}``, ``{account}``, ``{partition}``, ``{job}``."""

    code: str
    why: str
    do: str
    outlook: StartCondition
    limit: Limit | None = None


_W, _U, _O = StartCondition.WAITS, StartCondition.USER, StartCondition.OPERATOR
_CANCEL = "Cancel it and submit a corrected job."
_ADMIN = "Ask the operators of the cluster."
_WAIT = "Nothing: it starts by itself."

_TABLE: dict[str, tuple[str, str, StartCondition]] = {
    "None": ("Slurm has not considered it yet", _WAIT, _W),
    "WaitingForScheduling": ("Slurm has not considered it yet", _WAIT, _W),
    "SchedDefer": ("this cluster does not schedule jobs at submission", _WAIT, _W),
    "Resources": (
        "the resources it requests are not free in {partition}; it is the next to start",
        "Request fewer GPUs or nodes, or less time, so that it can be backfilled.",
        _W,
    ),
    "Priority": (
        "other jobs of {partition} have a higher priority",
        "A shorter --time may let it be backfilled before they start.",
        _W,
    ),
    "Dependency": ("jobs that it depends on have not ended", _WAIT, _W),
    "DependencyNeverSatisfied": (
        "a job that it depends on did not end as required, so it never starts",
        _CANCEL,
        _U,
    ),
    "BeginTime": ("its begin time is in the future, or it was requeued recently", _WAIT, _W),
    "Licenses": ("licenses that it requests are in use", _WAIT, _W),
    "Reservation": ("its reservation has not begun, or is in use", _WAIT, _W),
    "ReservationDeleted": ("its reservation was deleted", _CANCEL, _U),
    "JobHeldUser": ("its user holds it", "Release it: 'scontrol release {job}'.", _U),
    "JobHeldAdmin": ("an operator holds it", _ADMIN, _O),
    "JobHoldMaxRequeue": (
        "it was requeued as often as the cluster allows and is held",
        "Find out why it fails, then run 'scontrol release {job}'.",
        _U,
    ),
    "JobArrayTaskLimit": (
        "its array already runs as many tasks as its own limit allows",
        "Raise the number after % in --array, or wait.",
        _W,
    ),
    "PartitionDown": ("{partition} is down: jobs can be queued but do not start", _ADMIN, _O),
    "PartitionInactive": ("{partition} is inactive", "Use another partition.", _U),
    "PartitionNodeLimit": (
        "it requests more or fewer nodes than {partition} allows or has available",
        "Request another number of nodes, or another partition.",
        _U,
    ),
    "PartitionTimeLimit": (
        "it requests more time than {partition} allows",
        "Request a shorter time: 'scontrol update job {job} TimeLimit=...'.",
        _U,
    ),
    "PartitionConfig": (
        "the configuration of {partition} does not allow its request",
        "Request resources that {partition} has, or use another partition.",
        _U,
    ),
    "ReqNodeNotAvail": (
        "nodes that it needs are down, drained or reserved",
        "Remove --nodelist, or wait for the nodes; 'sinfo -R' shows why they are unavailable.",
        _O,
    ),
    "NodeDown": ("a node that it needs is down", "'sinfo -R' shows why. " + _ADMIN, _O),
    "FrontEndDown": ("no front end of the cluster is up", _ADMIN, _O),
    "BadConstraints": (
        "no node has everything that it requests",
        "Check --constraint, --gres, --mem and --cpus-per-task; 'sinfo -N -l' lists nodes.",
        _U,
    ),
    "SystemFailure": ("Slurm or a node failed while starting it", _ADMIN, _O),
    "JobLaunchFailure": (
        "it could not be launched (a missing program, a full disk, a failed prolog) and is held",
        "Fix that, then run 'scontrol release {job}'.",
        _U,
    ),
    "NonZeroExitCode": ("it ended with a non-zero exit code", "Check its output.", _U),
    "TimeLimit": ("it reached its time limit", "Submit it again with a longer --time.", _U),
    "InactiveLimit": ("it was inactive for longer than the cluster allows", _CANCEL, _U),
    "OutOfMemory": ("it used more memory than it requested", "Submit it with more --mem.", _U),
    "DeadLine": ("it cannot end before its own deadline", _CANCEL, _U),
    "Cleaning": ("its last run is still being cleaned up", _WAIT, _W),
    "Prolog": ("the prolog of its nodes is running", _WAIT, _W),
    "InvalidAccount": ("its account {account} is unknown or not its user's", _CANCEL, _U),
    "InvalidQOS": ("its QOS {qos} is unknown or not allowed for {account}", _CANCEL, _U),
    "QOSNotAllowed": (
        "{qos} may not be used by {account} or in {partition}",
        "Use another QOS: 'sacctmgr show assoc account={account} format=qos' lists them.",
        _U,
    ),
    "AccountNotAllowed": ("{account} may not use {partition}", "Use another partition.", _U),
    "QOSUsageThreshold": (
        "the usage of {account} is too high for {qos}",
        "Wait until past usage has decayed, or use another QOS.",
        _W,
    ),
    "QOSJobLimit": ("{qos} is at its limit of jobs", _WAIT, _W),
    "QOSResourceLimit": ("{qos} is at its limit of resources", _WAIT, _W),
    "QOSTimeLimit": ("{qos} is at its limit of time", _ADMIN, _O),
    "AssociationJobLimit": ("{account} is at its limit of jobs", _WAIT, _W),
    "AssociationResourceLimit": ("{account} is at its limit of resources", _WAIT, _W),
    "AssociationTimeLimit": ("{account} is at its limit of time", _ADMIN, _O),
    "AccountingPolicy": ("a limit of {account} or {qos} is reached", _WAIT, _W),
    "MaxMemPerLimit": (
        "it requests more memory per node or CPU than {partition} allows",
        "Request less --mem or --mem-per-cpu.",
        _U,
    ),
    "BurstBufferResources": ("the burst buffer has too little free space", _WAIT, _W),
    "BurstBufferStageIn": ("its files are being copied to the burst buffer", _WAIT, _W),
    "BurstBufferOperation": ("the burst buffer failed", _ADMIN, _O),
    "PowerNotAvail": ("the cluster has too little power for it", _WAIT, _W),
    "PowerReserved": ("power is reserved for other jobs", _WAIT, _W),
    "FedJobLock": ("the clusters of the federation are choosing which starts it", _WAIT, _W),
    "BlockMaxError": ("too many nodes of its block failed", _ADMIN, _O),
    "BlockFreeAction": ("its block is being freed", _WAIT, _W),
}

_LIMIT = re.compile(
    r"(?P<scope>QOS|Assoc|)(?P<span>Grp|Max|Min)"
    r"(?P<what>CPU|Cpu|Memory|Mem|Node|Energy|GRES|License|BB|Billing|Unknown"
    r"|SubmitJobs?|Jobs|WallDuration|Wall)"
    r"(?P<minutes>RunMinutes|Minutes)?(?:Per(?P<per>Job|Node|User|Account))?(?:Limit|NotSatisfied)?"
)
_RESOURCES = {
    "cpu": ("CPUs", "cpu"),
    "memory": ("memory", "mem"),
    "mem": ("memory", "mem"),
    "node": ("nodes", "node"),
    "energy": ("energy", "energy"),
    "gres": ("GPUs or other devices", "gres/"),
    "license": ("licenses", "license/"),
    "bb": ("burst buffer", "bb/"),
    "billing": ("billing", "billing"),
    "unknown": ("an unnamed resource", ""),
    "jobs": ("running jobs", "Jobs"),
    "submitjob": ("jobs, including pending ones", "Submit"),
    "submitjobs": ("jobs, including pending ones", "Submit"),
    "wall": ("run time", "Wall"),
    "wallduration": ("run time", "Wall"),
}
_PER = {"job": "PJ", "node": "PN", "user": "PU", "account": "PA", "": ""}
_COUNTS = frozenset({"Jobs", "Submit", "Wall"})


def meaning_of(code: str) -> ReasonMeaning:
    """The meaning of a code. An unknown code is shown as it is."""
    plain = code.split(",", 1)[0].strip()
    if plain in _TABLE:
        why, do, outlook = _TABLE[plain]
        return ReasonMeaning(code=plain, why=why, do=do, outlook=outlook)
    parts = _LIMIT.fullmatch(plain)
    if parts is None:
        shown = code.replace("{", "(").replace("}", ")")
        why = f"Slurm gives the unknown reason {shown!r}"
        return ReasonMeaning(code=plain, why=why, do=_ADMIN, outlook=_O)
    return _limit(plain, parts)


def _limit(code: str, parts: re.Match[str]) -> ReasonMeaning:
    scope = "account" if parts["scope"] == "Assoc" else "qos"
    resource_text, resource = _RESOURCES[parts["what"].lower()]
    per = (parts["per"] or "").lower()
    owner = "{account} or an account above it" if scope == "account" else "the QOS {qos}"
    subject = (owner, resource_text)
    why, do, outlook = _limit_texts(parts["span"], parts["minutes"] or "", per, subject)
    field = _field(parts["span"], resource, parts["minutes"] or "", per)
    limit = Limit(scope=scope, field=field, resource=resource, per=per)
    return ReasonMeaning(code=code, why=why, do=do, outlook=outlook, limit=limit)


def _field(span: str, resource: str, minutes: str, per: str) -> str:
    """The field of ``scontrol show assoc_mgr``."""
    if resource in _COUNTS:
        name = {"Jobs": "Jobs", "Submit": "SubmitJobs", "Wall": "Wall"}[resource]
        return f"{span}{name}{_PER[per] if per != 'job' or resource == 'Wall' else ''}"
    mins = {"Minutes": "Mins", "RunMinutes": "RunMins", "": ""}[minutes]
    return f"{span}TRES{mins}{_PER[per] or ('PJ' if span == 'Min' else '')}"


def _limit_texts(
    span: str, minutes: str, per: str, subject: tuple[str, str]
) -> tuple[str, str, StartCondition]:
    owner, resource = subject
    if span == "Min":
        return (
            f"{owner} requires jobs to request more {resource} than this one",
            "Request more, or use another QOS.",
            _U,
        )
    if minutes == "RunMinutes":
        return (
            f"the running jobs of {owner} may still use {resource} up to its limit of time",
            "Request a shorter --time, or wait until running jobs have progressed.",
            _W,
        )
    if minutes and not per:
        return (
            f"{owner} has used up its limit of {resource} over time",
            "Wait until past usage has decayed, or raise its budget in the fleet file and render again.",
            _O,
        )
    if per in ("job", "node"):
        each = "one job" if per == "job" else "a job on one node"
        over = " over its run time" if minutes else ""
        return (
            f"it requests more {resource}{over} than {owner} allows {each}",
            "Request less; it never starts as it is.",
            _U,
        )
    holders = {"user": f"its user's jobs in {owner}", "account": f"{{account}}'s jobs in {owner}"}
    return (
        f"{holders.get(per, f'all jobs of {owner} together')} are at their limit of {resource}",
        "Wait until one of them ends, request less, or raise the quota in the fleet file and render again.",
        _W,
    )
