"""What every account of a Slurm used, priced as the fleet's ledger prices it; foreign accounts included."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bursar.model.errors import UserError
from bursar.model.fleet.fleet import Fleet
from bursar.model.units import HOUR_MS, MILLI, write_usd

if TYPE_CHECKING:
    from bursar.accounting.ledger.books import Books
    from bursar.engines.slurm.governed.import_history import SlurmHistory

GPU_HOUR = MILLI * HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """One account. ``foreign`` ones are not in the fleet file. What was wasted is part of the cost."""

    account: str
    foreign: bool
    jobs: int
    gpu_milli_ms: int
    micro_usd: int
    wasted_micro_usd: int
    users: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """All accounts, and what nobody used: together exactly what the nodes cost since the first job."""

    from_ms: int
    to_ms: int
    rows: tuple[UsageRow, ...]
    idle_micro_usd: int
    fleet_micro_usd: int
    bad_rows: tuple[str, ...]
    notes: tuple[str, ...]

    def lines(self) -> list[str]:
        """A table, its sum, and what was left out."""
        told = [f"{'account':<28}{'jobs':>8}{'GPU-hours':>14}{'cost':>14}{'wasted':>12}"]
        for row in self.rows:
            name = f"{row.account}{' (foreign)' if row.foreign else ''}"
            told.append(
                f"{name:<28}{row.jobs:>8,}{row.gpu_milli_ms / GPU_HOUR:>14,.3f}"
                f"{write_usd(row.micro_usd):>14}{write_usd(row.wasted_micro_usd):>12}"
            )
            told += [f"  {user:<26}{'':>8}{'':>14}{write_usd(usd):>14}" for user, usd in row.users]
        told.append(f"{'(idle)':<28}{'':>8}{'':>14}{write_usd(self.idle_micro_usd):>14}")
        told.append(f"{'all nodes':<28}{'':>8}{'':>14}{write_usd(self.fleet_micro_usd):>14}")
        told += [f"bad row: {row}" for row in self.bad_rows]
        return [*told, *(f"note: {note}" for note in self.notes)]


def slurm_usage(fleet: str, since: str | None, until: str | None) -> UsageReport:
    """Ask sacct, fold it through the ledger, and add up by account."""
    import time

    from bursar.accounting.ledger.ledger import Ledger
    from bursar.config import read_fleet
    from bursar.engines.slurm.governed.import_history import ask_sacct, history_of, read_runs
    from bursar.engines.slurm.governed.render import slurm_cluster
    from bursar.gc_tuning import rare_gc
    from bursar.model.event import FleetDeclared
    from bursar.model.tenants.tenant import Tenant
    from bursar.wiring.slurm.governed import commands_here, refusals_are_users

    file = read_fleet(Path(fleet))
    machines = _of_cluster(file.fleet, slurm_cluster(file.fleet, None))
    with refusals_are_users():
        in_utc = commands_here(TZ="UTC", SLURM_TIME_FORMAT="standard")
        text = ask_sacct(in_utc, since or "1970-01-02", until or "now")
    ours = {one.name.lower(): replace(one, name=one.name.lower()) for one in file.tenants}
    accounts = {run.account for run in read_runs(text)[0]} - {""}
    foreign = [Tenant(name=one, is_queue=True) for one in sorted(accounts - set(ours))]
    tenants = (*ours.values(), *foreign)
    history = history_of(text, machines, tenants, file.policies)
    if not history.events:
        raise UserError(
            "sacct remembers no job of that time that ran on nodes of this fleet.",
            fix="Ask for a longer time with --since, or check the names of nodes in the fleet file.",
            code="no-history",
        )
    began_ms = history.events[0].at_ms
    ledger = Ledger()
    ledger.apply(
        FleetDeclared(at_ms=began_ms, fleet=machines, tenants=tenants, policies=file.policies)
    )
    with rare_gc():
        for event in history.events:
            ledger.apply(event)
    ledger.meter.close(max(int(time.time() * 1_000), ledger.meter.now_ms))
    return _report(ledger.books, history, frozenset(ours), (began_ms, ledger.meter.now_ms))


def _of_cluster(fleet: Fleet, cluster: str) -> Fleet:
    pools = tuple(pool for pool in fleet.pools if pool.cluster == cluster)
    names = {pool.name for pool in pools}
    nodes = tuple(node for node in fleet.nodes if node.pool in names)
    clusters = tuple(one for one in fleet.clusters if one.name == cluster)
    return Fleet(clusters=clusters, pools=pools, nodes=nodes)


def _report(
    books: Books, history: SlurmHistory, ours: frozenset[str], period: tuple[int, int]
) -> UsageReport:
    from bursar.accounting.ledger.entry import AccountKind

    jobs: dict[str, set[str]] = defaultdict(set)
    money: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    people: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in books.job_rows():
        account = row.queue.removesuffix("-jobs") if row.queue not in ours else row.queue
        jobs[account].add(row.job_id)
        cell = money[account]
        cell[0] += row.micro_usd
        cell[1] += row.micro_usd if row.kind is AccountKind.WASTE else 0
        cell[2] += row.gpu_milli_ms
        people[account][history.owners.get(row.job_id, "?")] += row.micro_usd
    rows = tuple(
        UsageRow(
            account=account,
            foreign=account not in ours,
            jobs=len(jobs[account]),
            gpu_milli_ms=money[account][2],
            micro_usd=money[account][0],
            wasted_micro_usd=money[account][1],
            users=tuple(sorted(people[account].items(), key=lambda one: (-one[1], one[0]))),
        )
        for account in sorted(money)
    )
    by_kind = books.by_kind()
    return UsageReport(
        from_ms=period[0],
        to_ms=period[1],
        rows=rows,
        idle_micro_usd=by_kind.get(AccountKind.IDLE, 0),
        fleet_micro_usd=books.fleet_micro_usd(),
        bad_rows=tuple(str(one) for one in history.bad),
        notes=history.notes,
    )


def usage_json(report: UsageReport) -> dict[str, object]:
    """The same for programs."""
    from bursar.codec import to_plain

    return dict(to_plain(report))
