"""What Bursar manages in a governed Slurm cluster: accounts, QOS, users, partitions, settings.

The desired setup of a fleet (``render.py``) and the current setup of a cluster (``present.py``) have the same
types, so they are compared field by field. Bursar changes nothing else in Slurm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

Amounts = Mapping[str, int]
"""Limits by Slurm's name of the resource: ``gres/gpu:t4``, ``cpu``, ``mem`` (MiB), ``billing``."""

ROOT: Final = "root"
BORROW: Final = "-borrow"
"""Suffix of the QOS for a queue's jobs above its own quota."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Qos:
    """A QOS. A higher ``priority`` goes first; ``preempts`` are the QOS that it may preempt."""

    name: str
    priority: int = 0
    most: Amounts = field(default_factory=dict)
    """Limit of all its jobs together (GrpTRES)."""
    preempts: tuple[str, ...] = ()
    grace_seconds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmAccount:
    """A tenant. ``shares`` are relative to its siblings'."""

    name: str
    parent: str = ROOT
    shares: int = 1
    most: Amounts = field(default_factory=dict)
    """Limit of its subtree (GrpTRES)."""
    most_minutes: Amounts = field(default_factory=dict)
    """Limit of its subtree's decayed usage (GrpTRESMins)."""
    qos: tuple[str, ...] = ()
    default_qos: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountMember:
    """A user who may submit to an account."""

    user: str
    account: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredPartition:
    """A partition and its billing weights."""

    name: str
    nodes: tuple[str, ...]
    billing: Mapping[str, str] = field(default_factory=dict)
    """Thousandths of a dollar an hour for each resource (TRESBillingWeights)."""
    default_time_ms: int | None = None
    is_default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSetup:
    """The setup of one cluster. ``notes`` list what of the fleet Slurm cannot express."""

    qos: tuple[Qos, ...]
    accounts: tuple[SlurmAccount, ...]
    members: tuple[AccountMember, ...] = ()
    partitions: tuple[DesiredPartition, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of slurm.conf."""
    notes: tuple[str, ...] = ()
