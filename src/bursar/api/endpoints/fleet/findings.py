"""The house rules and what they find: of jobs those that the caller sees, of nodes those of operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from starlette.responses import Response

from bursar.accounting.ledger.ledger import Ledger
from bursar.api import wire
from bursar.api.http.request import RequestContext, answer
from bursar.control.requests.governance_admission import empty_nodes, findings_on
from bursar.core.state.fleet_state import FleetState
from bursar.governance.finding import Finding
from bursar.governance.fleet_findings import EmptyNode, RunTimes, idle_nodes, right_size
from bursar.model.jobs.job import OVER, JobState
from bursar.model.tenants.governance import Governance
from bursar.model.tenants.identity import MEMBER_OF_ALL
from bursar.ports import JobFilter, JobRow, StoreReader

JOBS_LOOKED_AT = 500
"""The newest live jobs, and the newest that ended well."""


async def list_findings(call: RequestContext) -> Response:
    """What every rule has to say about the fleet and its jobs as they are."""
    seen = await call.seen()
    live, ended = await call.desk.read(_jobs, call.desk.plane.reader, seen)

    def question(
        ledger: Ledger, state: FleetState, now_ms: int
    ) -> tuple[Governance, list[Finding], list[EmptyNode], int]:
        rules = state.policies.governance
        said = [one for row in live for one in findings_on(row.spec, row.labels, state)]
        return rules, said, empty_nodes(ledger, state), now_ms

    rules, said, empty, now_ms = await call.desk.query_ledger(question)
    if rules.right_size is not None:
        said += right_size(rules.right_size, runs_of(ended))
    if rules.idle_nodes is not None and call.who.tenant == MEMBER_OF_ALL:
        said += idle_nodes(rules.idle_nodes, empty, now_ms)
    items: list[wire.FindingRow] = [finding(one) for one in said]
    return answer({"items": items})


def finding(one: Finding) -> wire.FindingRow:
    """As it goes over the wire."""
    return {
        "rule": one.rule,
        "mode": one.mode.value,
        "owner": one.owner,
        "subject": one.subject,
        "text": one.text,
        "fix": one.fix,
        "micro_usd_per_hour": one.micro_usd_per_hour,
    }


def _jobs(
    reader: StoreReader, seen: frozenset[str] | None
) -> tuple[Sequence[JobRow], Sequence[JobRow]]:
    living = frozenset(JobState) - OVER
    live = reader.jobs(JobFilter(queues=seen, states=living, limit=JOBS_LOOKED_AT))
    well = frozenset({JobState.SUCCEEDED})
    return live, reader.jobs(JobFilter(queues=seen, states=well, limit=JOBS_LOOKED_AT))


def runs_of(ended: Sequence[JobRow]) -> Iterator[RunTimes]:
    """What jobs of one queue, owner and name have taken; ``ended`` is newest first."""
    found: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
    for row in ended:
        if row.spec.max_run_ms is None or row.started_at_ms is None or row.ended_at_ms is None:
            continue
        took_ms = row.ended_at_ms - row.started_at_ms
        key = (row.queue, row.owner, row.name.partition("[")[0])
        found.setdefault(key, []).append((took_ms, row.spec.max_run_ms))
    for (queue, _, name), runs in sorted(found.items()):
        yield RunTimes(
            name=name,
            queue=queue,
            ended=len(runs),
            longest_ms=max(took_ms for took_ms, _ in runs),
            asked_ms=runs[0][1],
        )
