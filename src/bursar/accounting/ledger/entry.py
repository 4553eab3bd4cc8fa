"""One posting of the ledger: so much from one account to another, for what was held, where and when."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import cache
from typing import NamedTuple


class AccountKind(StrEnum):
    """What an account stands for; its name follows after a colon."""

    CAPACITY = "capacity"
    """The source: what the nodes of a pool cost. Only ever credited, but for a lower bill."""
    USAGE = "usage"
    """What the jobs of a queue held."""
    WASTE = "waste"
    """What the attempts of a queue held in vain: lost work and starts that failed."""
    IDLE = "idle"
    """What nobody held of a pool."""
    RESERVED = "reserved"
    """What was kept of a pool for a job that could not have it yet."""
    FOREIGN = "foreign"
    """What others than our jobs held of a pool."""
    ADJUSTMENT = "adjustment"
    """What a real bill says a pool cost beyond what was metered."""


OF_QUEUES = frozenset({AccountKind.USAGE, AccountKind.WASTE})


@cache
def account_of(kind: AccountKind, name: str) -> str:
    """The account's full name: ``usage:research``, ``idle:a100``."""
    return f"{kind.value}:{name}"


@cache
def kind_of(account: str) -> AccountKind:
    return AccountKind(account.partition(":")[0])


@cache
def name_of(account: str) -> str:
    """The queue or the pool that the account is of."""
    return account.partition(":")[2]


class Volume(NamedTuple):
    """What was held, times how long: sums of it can be read as GPU-hours, CPU-hours, node-hours.

    ``node_milli_ms`` is the part of a node that was paid for, and ``unshared_milli_ms`` the part it
    would have been had every slice and every share been a whole GPU.
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
    """``micro_usd`` moves from ``credit`` to ``debit``; it is never negative and never changed later.

    From ``from_ms`` to ``to_ms`` something was held, within one hour (UTC); only an adjustment spans the
    period of its bill, and stands in its first hour. ``posted_ms`` is when the entry became known, which
    for lost work and for bills is later. ``node`` is empty where an entry is
    about several; ``job_id`` is empty where no job held anything. Who owns a job is not in the events:
    reports join it, and labels, by ``job_id``.
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

made_of = tuple.__new__
"""``made_of(Volume, (1, 2, 3, 4, 5))``: past the constructor of a named tuple, which is not quick, where
hundreds of thousands are made."""
