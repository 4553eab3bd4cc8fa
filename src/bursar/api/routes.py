"""All routes, in the order of the documentation. No request is served outside them."""

from __future__ import annotations

from bursar.api.endpoints.fleet import findings, fleet, tenants
from bursar.api.endpoints.jobs import bundles, events, jobs, logs, queue, submit
from bursar.api.endpoints.money import budgets, costs, statements
from bursar.api.endpoints.operations import operations, prometheus, tokens
from bursar.api.http.route import Route

ROUTES: tuple[Route, ...] = (
    *(operations.alive, operations.job_schema_file, operations.fleet_schema_file),
    *(submit.submit, submit.submit_many, jobs.list_jobs, jobs.get_job, jobs.why),
    *(jobs.why_preempted, jobs.job_events, logs.logs, jobs.cancel, submit.retry),
    *(queue.plan, queue.list_waiting, events.follow_events),
    *(bundles.get_bundle, bundles.put_bundle),
    *(fleet.get_fleet, fleet.plan_fleet, fleet.apply_fleet),
    *(tenants.quota, findings.list_findings, tenants.fair, tenants.list_tenants),
    *(budgets.list_budgets, costs.cost_report, costs.cost_diff, costs.cost_forecast),
    *(statements.cost_statement, statements.cost_savings, costs.cost_export, statements.take_bill),
    *(tokens.whoami, tokens.list_tokens, tokens.create_token, tokens.revoke_token),
    *(prometheus.scrape, operations.health, operations.audit, operations.interrupt),
    *(operations.drain, operations.restore),
)
