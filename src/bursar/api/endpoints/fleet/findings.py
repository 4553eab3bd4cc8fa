"""Findings of the governance rules: on visible jobs, and for operators also on nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bursar.accounting.ledger.ledger import Ledger
from bursar.api import wire
from bursar.api.http.request import RequestContext
from bursar.api.http.route import Route
from bursar.api.wire.views import to_wire
from bursar.core.state.fleet_state import FleetState
from bursar.governance.admission import findings_on
from bursar.governance.finding import Finding
from bursar.governance.fleet_findings import EmptyNode, RunTimes, idle_nodes, right_size
from bursar.model.jobs.job import OVER, JobState
from bursar.model.tenants.governance import Governance
from bursar.model.tenants.identity import MEMBER_OF_ALL, Permission
from bursar.ports import JobFilter, JobRow, StoreReader

MAX_JOBS = 500
"""Checked are the newest live jobs, and the newest that succeeded."""


@Route("GET", "/v1/rules", Permission.READ_TENANTS, "One row for each finding.")
async def list_findings(request: RequestContext) -> wire.FindingPage:
    """Findings of the governance rules on the fleet and its jobs."""
    visible = await request.visible_queues()
    live, ended = await request.read_store(_jobs, visible)

    def query(
        ledger: Ledger, state: FleetState, now_ms: int
    ) -> tuple[Governance, list[Finding], list[EmptyNode], int]:
        rules = state.policies.governance
        found = [one for row in live for one in findings_on(row.spec, row.labels, state)]
        return rules, found, empty_nodes(ledger, state), now_ms

    rules, found, empty, now_ms = await request.context.query_ledger(query)
    if rules.right_size is not None:
        found += right_size(rules.right_size, runs_of(ended))
    if rules.idle_nodes is not None and request.caller.tenant == MEMBER_OF_ALL:
        found += idle_nodes(rules.idle_nodes, empty, now_ms)
    return {"items": [to_wire(one, wire.FindingRow) for one in found]}


def _jobs(
    reader: StoreReader, visible: frozenset[str] | None
) -> tuple[Sequence[JobRow], Sequence[JobRow]]:
    live = reader.jobs(JobFilter(queues=visible, states=frozenset(JobState) - OVER, limit=MAX_JOBS))
    succeeded = frozenset({JobState.SUCCEEDED})
    return live, reader.jobs(JobFilter(queues=visible, states=succeeded, limit=MAX_JOBS))


def runs_of(ended: Sequence[JobRow]) -> Iterator[RunTimes]:
    """Run times by queue, owner and name; ``ended`` is newest first."""
    groups: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
    for row in ended:
        if row.spec.max_run_ms is None or row.started_at_ms is None or row.ended_at_ms is None:
            continue
        run_ms = row.ended_at_ms - row.started_at_ms
        key = (row.queue, row.owner, row.name.partition("[")[0])
        groups.setdefault(key, []).append((run_ms, row.spec.max_run_ms))
    for (queue, _, name), runs in sorted(groups.items()):
        yield RunTimes(
            name=name,
            queue=queue,
            ended=len(runs),
            longest_ms=max(run_ms for run_ms, _ in runs),
            asked_ms=runs[0][1],
        )


def empty_nodes(ledger: Ledger, state: FleetState) -> list[EmptyNode]:
    """Nodes that are neither used nor reserved, with the time since when."""
    return [
        EmptyNode(
            node=meter.id,
            pool=meter.shape.name,
            market=meter.shape.market,
            since_ms=meter.empty_since_ms,
            micro_usd_per_hour=meter.price,
        )
        for name, meter in sorted(ledger.meter.nodes.items())
        if not meter.held and not meter.reserved and name in state.pool_of_node
    ]
