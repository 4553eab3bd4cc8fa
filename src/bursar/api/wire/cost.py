"""Wire types about money. Days are ``YYYY-MM-DD`` in UTC; the end of a range is not included."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

CostKind = Literal["usage", "waste", "idle", "reserved", "foreign", "adjustment"]
StatementStyle = Literal["showback", "chargeback"]
IdlePolicyName = Literal["absorbed", "proportional", "quota-owner"]
BaselineName = Literal["on-demand", "on-demand-while-used", "no-sharing"]


class CostRow(TypedDict):
    """Costs summed by some keys, one for each requested dimension.

    ``name`` and ``owner`` are those of the job if rows are jobs, else empty.
    """

    keys: list[str]
    name: str
    owner: str
    usage_micro_usd: int
    waste_micro_usd: int
    idle_micro_usd: int
    reserved_micro_usd: int
    foreign_micro_usd: int
    adjustment_micro_usd: int
    total_micro_usd: int
    gpu_hours: float
    idle_gpu_hours: float
    jobs: int


class CostReportView(TypedDict):
    """A cost report: rows by descending cost, days in order. ``rows`` and ``total`` cover all rows."""

    by: list[str]
    from_day: str
    to_day: str
    is_over: bool
    sees_fleet: bool
    items: list[CostRow]
    rows: int
    total: CostRow


class CostChange(TypedDict):
    """One row of two periods. ``change_permille`` is relative to before; null if that was zero."""

    keys: list[str]
    before_micro_usd: int
    after_micro_usd: int
    change_micro_usd: int
    change_permille: int | None
    before_gpu_hours: float
    after_gpu_hours: float


class CostDiff(TypedDict):
    """The changes between two periods, the largest first."""

    by: list[str]
    before_from_day: str
    before_to_day: str
    from_day: str
    to_day: str
    is_over: bool
    sees_fleet: bool
    items: list[CostChange]
    rows: int
    total: CostChange


class CostForecast(TypedDict):
    """A tenant's forecast spending at the end of the period. Low and high are an 80 % interval."""

    tenant: str
    period: str
    from_day: str
    to_day: str
    enforcement: str | None
    amount_micro_usd: int | None
    spent_micro_usd: int
    left_micro_usd: int | None
    micro_usd_per_day: int
    end_micro_usd: int
    low_end_micro_usd: int | None
    high_end_micro_usd: int | None
    exhausted_ms: int | None
    earliest_ms: int | None
    latest_ms: int | None
    basis: str
    text: str


class CostForecasts(TypedDict):
    """One row for each budget."""

    items: list[CostForecast]


class BudgetRow(TypedDict):
    """The status of one budget. ``held`` is what its live jobs may still cost.

    ``level`` is the highest threshold reached, in percent, and ``action`` its action; empty before the
    first. ``exhausted_ms`` is when the budget is used up at this rate; null if not within the period.
    """

    tenant: str
    enforcement: Literal["soft", "hard"]
    period: str
    period_start_ms: int
    period_end_ms: int
    amount_micro_usd: int
    spent_micro_usd: int
    held_micro_usd: int
    left_micro_usd: int
    percent: int
    level: int
    action: str
    micro_usd_per_hour: int
    exhausted_ms: int | None


class BudgetPage(TypedDict):
    """One row for each budget."""

    items: list[BudgetRow]


class StatementLineView(TypedDict):
    """One line of a statement: of a job, of all jobs of a queue, or of no queue."""

    kind: CostKind
    gpu_model: str
    market: str
    queue: str
    job_id: str
    gpu_hours: float
    micro_usd: int
    cents: int


class CostStatement(TypedDict):
    """The statement of one payer. The cents of its lines sum to its cents."""

    payer: str
    style: StatementStyle
    idle: IdlePolicyName
    from_day: str
    to_day: str
    is_over: bool
    lines: list[StatementLineView]
    micro_usd: int
    cents: int
    owed_cents: int


class CostStatements(TypedDict):
    """Statements and their sums; over all payers this is the cost of the fleet."""

    items: list[CostStatement]
    micro_usd: int
    cents: int


class CostSaving(TypedDict):
    """Savings against one baseline; negative if the baseline is cheaper."""

    baseline: BaselineName
    about: str
    baseline_micro_usd: int
    cost_micro_usd: int
    saved_micro_usd: int
    saved_permille: int


class CostSavings(TypedDict):
    """Savings, and warnings about the prices of the baselines."""

    from_day: str
    to_day: str
    is_over: bool
    items: list[CostSaving]
    warnings: list[str]


class BillRequest(TypedDict):
    """A provider's bill for whole days of a pool. The default flavor is the pool's current one."""

    pool: str
    from_day: str
    to_day: str
    billed_micro_usd: int
    flavor: NotRequired[str]


class BillTaken(TypedDict):
    """The result of a bill: the difference is booked as an adjustment."""

    pool: str
    flavor: str
    from_day: str
    to_day: str
    metered_micro_usd: int
    billed_micro_usd: int
    adjustment_micro_usd: int


class PlanEstimate(TypedDict):
    """The estimated cost of a job on one pool: median (P50) and 90th percentile (P90).

    ``is_allowed`` is whether the job's markets allow the pool. If the job is not expected to end there,
    amounts are null and ``reason`` is set. Waiting time is not included.
    """

    pool: str
    market: str
    is_allowed: bool
    p50_micro_usd: int | None
    p90_micro_usd: int | None
    p50_ms: int | None
    p90_ms: int | None
    basis: str
    warnings: list[str]
    reason: str


class CostLine(TypedDict):
    """One line of an export: one day of a job on a pool, or of the pool's idle capacity."""

    day: str
    kind: CostKind
    pool: str
    gpu_model: str
    market: str
    team: str
    project: str
    queue: str
    user: str
    job_id: str
    job_name: str
    labels: dict[str, str]
    micro_usd: int
    gpu_hours: float
    cpu_hours: float
    memory_gib_hours: float
