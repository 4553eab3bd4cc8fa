"""What Bursar keeps in a Slurm that decides for itself: accounts, QOS, users, partitions, settings.

The same values stand for what a fleet calls for (``render.py``) and for what a cluster has (``present.py``),
so that one is compared with the other field by field. What is not here, Bursar never touches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

Amounts = Mapping[str, int]
"""Limits by Slurm's name of the resource: ``gres/gpu:t4``, ``cpu``, ``mem`` (MiB), ``billing``."""

ROOT: Final = "root"
BORROW: Final = "-borrow"
"""Ends the name of the QOS in which a queue runs what is above its own quota."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Qos:
    """A quality of service. A higher ``priority`` goes first; ``preempts`` are QOS it may stop."""

    name: str
    priority: int = 0
    most: Amounts = field(default_factory=dict)
    """What all its jobs together may hold (GrpTRES)."""
    preempts: tuple[str, ...] = ()
    grace_seconds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmAccount:
    """A tenant. ``shares`` count against its siblings'."""

    name: str
    parent: str = ROOT
    shares: int = 1
    most: Amounts = field(default_factory=dict)
    """What its subtree may hold (GrpTRES)."""
    most_minutes: Amounts = field(default_factory=dict)
    """What its subtree may have used, faded by the half-life (GrpTRESMins)."""
    qos: tuple[str, ...] = ()
    default_qos: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountMember:
    """A user who may submit to an account."""

    user: str
    account: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredPartition:
    """Nodes that jobs ask for together, and what holding a part of one is charged."""

    name: str
    nodes: tuple[str, ...]
    billing: Mapping[str, str] = field(default_factory=dict)
    """Thousandths of a dollar for an hour of each resource (TRESBillingWeights)."""
    default_time_ms: int | None = None
    is_default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSetup:
    """All of it. ``notes`` say what of the fleet Slurm has no words for."""

    qos: tuple[Qos, ...]
    accounts: tuple[SlurmAccount, ...]
    members: tuple[AccountMember, ...] = ()
    partitions: tuple[DesiredPartition, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    """Lines of slurm.conf."""
    notes: tuple[str, ...] = ()
