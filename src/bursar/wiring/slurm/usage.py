"""Usage and cost of every account of a Slurm cluster, priced by the fleet's ledger."""

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
    """One account. ``foreign`` accounts are not in the fleet file. Waste is included in the cost."""

    account: str
    foreign: bool
    jobs: int
    gpu_milli_ms: int
    micro_usd: int
    wasted_micro_usd: int
    users: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """All accounts and idle time: together exactly the cost of the nodes since the first job."""

    from_ms: int
    to_ms: int
    rows: tuple[UsageRow, ...]
    idle_micro_usd: int
    fleet_micro_usd: int
    bad_rows: tuple[str, ...]
    notes: tuple[str, ...]

    def lines(self) -> list[str]:
        """A table, its sum, and the rows that were skipped."""
        lines = [f"{'account':<28}{'jobs':>8}{'GPU-hours':>14}{'cost':>14}{'wasted':>12}"]
        for row in self.rows:
            name = f"{row.account}{' (foreign)' if row.foreign else ''}"
            lines.append(
                f"{name:<28}{row.jobs:>8,}{row.gpu_milli_ms / GPU_HOUR:>14,.3f}"
                f"{write_usd(row.micro_usd):>14}{write_usd(row.wasted_micro_usd):>12}"
            )
            lines += [f"  {user:<26}{'':>8}{'':>14}{write_usd(usd):>14}" for user, usd in row.users]
        lines.append(f"{'(idle)':<28}{'':>8}{'':>14}{write_usd(self.idle_micro_usd):>14}")
        lines.append(f"{'all nodes':<28}{'':>8}{'':>14}{write_usd(self.fleet_micro_usd):>14}")
        lines += [f"bad row: {row}" for row in self.bad_rows]
        return [*lines, *(f"note: {note}" for note in self.notes)]


def slurm_usage(fleet: str, since: str | None, until: str | None) -> UsageReport:
    """Query sacct, apply its events to a ledger, and add up by account."""
    import time

    from bursar.accounting.ledger.ledger import Ledger
    from bursar.config import read_fleet
    from bursar.engines.slurm.governed.import_history import history_of, query_sacct, read_runs
    from bursar.engines.slurm.governed.render import slurm_cluster
    from bursar.gc_tuning import rare_gc
    from bursar.model.event import FleetDeclared
    from bursar.model.tenants.tenant import Tenant
    from bursar.wiring.slurm.governed import local_commands, refusals_as_user_errors

    file = read_fleet(Path(fleet))
    machines = _of_cluster(file.fleet, slurm_cluster(file.fleet, None))
    with refusals_as_user_errors():
        in_utc = local_commands(TZ="UTC", SLURM_TIME_FORMAT="standard")
        text = query_sacct(in_utc, since or "1970-01-02", until or "now")
    ours = {one.name.lower(): replace(one, name=one.name.lower()) for one in file.tenants}
    accounts = {run.account for run in read_runs(text)[0]} - {""}
    foreign = [Tenant(name=one, is_queue=True) for one in sorted(accounts - set(ours))]
    tenants = (*ours.values(), *foreign)
    history = history_of(text, machines, tenants, file.policies)
    if not history.events:
        raise UserError(
            "sacct has no job of that time that ran on nodes of this fleet.",
            fix="Use an earlier --since, or check the names of nodes in the fleet file.",
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
    users: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in books.job_rows():
        account = row.queue.removesuffix("-jobs") if row.queue not in ours else row.queue
        jobs[account].add(row.job_id)
        cell = money[account]
        cell[0] += row.micro_usd
        cell[1] += row.micro_usd if row.kind is AccountKind.WASTE else 0
        cell[2] += row.gpu_milli_ms
        users[account][history.owners.get(row.job_id, "?")] += row.micro_usd
    rows = tuple(
        UsageRow(
            account=account,
            foreign=account not in ours,
            jobs=len(jobs[account]),
            gpu_milli_ms=money[account][2],
            micro_usd=money[account][0],
            wasted_micro_usd=money[account][1],
            users=tuple(sorted(users[account].items(), key=lambda one: (-one[1], one[0]))),
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
    """A report as values for JSON."""
    from bursar.codec import to_plain

    return dict(to_plain(report))
