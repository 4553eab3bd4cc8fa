"""A posting: an amount moved from one account to another, with the usage behind it."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import cache
from typing import NamedTuple


class AccountKind(StrEnum):
    """The type of an account; the name of its queue or pool follows after a colon."""

    CAPACITY = "capacity"
    """The source: what the nodes of a pool cost. Debited only when a real bill is lower."""
    USAGE = "usage"
    """What the jobs of a queue held."""
    WASTE = "waste"
    """What the attempts of a queue lost: unsaved work and failed starts."""
    IDLE = "idle"
    """Capacity of a pool without a holder."""
    RESERVED = "reserved"
    """Capacity of a pool that was free but reserved for a waiting job."""
    FOREIGN = "foreign"
    """What jobs that Bursar did not start held of a pool."""
    ADJUSTMENT = "adjustment"
    """The difference between a real bill and what was metered."""


QUEUE_KINDS = frozenset({AccountKind.USAGE, AccountKind.WASTE})
"""Accounts that belong to a queue; all others belong to a pool."""


@cache
def account_of(kind: AccountKind, name: str) -> str:
    """The account's full name: ``usage:research``, ``idle:a100``."""
    return f"{kind.value}:{name}"


@cache
def kind_of(account: str) -> AccountKind:
    return AccountKind(account.partition(":")[0])


@cache
def name_of(account: str) -> str:
    """The queue or pool of an account."""
    return account.partition(":")[2]


class Volume(NamedTuple):
    """Resources times time: its sums are GPU-hours, CPU-hours and node-hours.

    ``node_milli_ms`` is the fraction of a node that was paid for, ``unshared_milli_ms`` that fraction if
    every slice and every share were a whole GPU.
    """

    gpu_milli_ms: int = 0
    cpu_milli_ms: int = 0
    memory_mib_ms: int = 0
    node_milli_ms: int = 0
    unshared_milli_ms: int = 0

    def plus(self, other: Volume) -> Volume:
        gpu, cpu, memory, node, unshared = self
        more_gpu, more_cpu, more_memory, more_node, more_unshared = other
        return Volume(
            gpu + more_gpu,
            cpu + more_cpu,
            memory + more_memory,
            node + more_node,
            unshared + more_unshared,
        )


NOTHING = Volume()


class LedgerEntry(NamedTuple):
    """``micro_usd`` moves from ``credit`` to ``debit``. It is never negative; an entry never changes.

    ``from_ms`` to ``to_ms`` lies within one hour (UTC); only an adjustment spans the period of its bill and
    is booked in its first hour. ``posted_ms`` is when the entry became known: later than ``to_ms`` for lost
    work and bills. ``node`` is empty if several are meant, ``job_id`` if no job is. Reports join the owner
    and the labels of a job by ``job_id``.
    """

    sequence: int
    from_ms: int
    to_ms: int
    posted_ms: int
    debit: str
    credit: str
    micro_usd: int
    pool: str
    flavor: str
    node: str = ""
    queue: str = ""
    job_id: str = ""
    attempt: int = 0
    volume: Volume = NOTHING


Sink = Callable[[LedgerEntry], None]

fast_tuple = tuple.__new__
"""``fast_tuple(Volume, (1, 2, 3, 4, 5))`` skips the slow constructor of a named tuple, where hundreds of
thousands are made."""
