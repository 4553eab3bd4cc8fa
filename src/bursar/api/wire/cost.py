"""What goes over the wire about money. See ``wire.py``. Days are ``YYYY-MM-DD`` in UTC, ends not included."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

CostKind = Literal["usage", "waste", "idle", "reserved", "foreign", "adjustment"]
StatementStyle = Literal["showback", "chargeback"]
IdlePolicyName = Literal["absorbed", "proportional", "quota-owner"]
BaselineName = Literal["on-demand", "on-demand-while-used", "no-sharing"]


class CostRow(TypedDict):
    """What came together under some keys, one for each dimension asked for.

    ``name`` and ``owner`` are those of a job where rows are jobs, else empty.
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
    """Rows, the dearest first; days in order. ``rows`` is how many there are, ``total`` what all come to."""

    by: list[str]
    from_day: str
    to_day: str
    is_over: bool
    sees_fleet: bool
    items: list[CostRow]
    rows: int
    total: CostRow


class CostChange(TypedDict):
    """One row of two periods. ``change_permille`` is of what it was, None where it was nothing."""

    keys: list[str]
    before_micro_usd: int
    after_micro_usd: int
    change_micro_usd: int
    change_permille: int | None
    before_gpu_hours: float
    after_gpu_hours: float


class CostDiff(TypedDict):
    """What changed from one period to another, the largest change first."""

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
    """What a tenant will have spent when its period ends. Low and high hold in four of five cases."""

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
    """Where one budget stands now. ``held`` is what its open jobs may still cost beyond what they have.

    ``level`` is the highest step that is reached, in percent, and ``action`` what follows from it; empty
    before the first. ``exhausted_ms`` is when all is spent at this rate, None if not within the period.
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
    """One line of a statement. Without a job it stands for all of the queue's, or for no queue at all."""

    kind: CostKind
    gpu_model: str
    market: str
    queue: str
    job_id: str
    gpu_hours: float
    micro_usd: int
    cents: int


class CostStatement(TypedDict):
    """What one payer is shown, or owes. Its lines' cents come to its cents."""

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
    """Statements whose cents come to ``cents``; with all payers, that is what the fleet cost."""

    items: list[CostStatement]
    micro_usd: int
    cents: int


class CostSaving(TypedDict):
    """What was saved against a baseline; negative where the baseline is cheaper."""

    baseline: BaselineName
    about: str
    baseline_micro_usd: int
    cost_micro_usd: int
    saved_micro_usd: int
    saved_permille: int


class CostSavings(TypedDict):
    """What was saved, and what to know about the prices it is compared with."""

    from_day: str
    to_day: str
    is_over: bool
    items: list[CostSaving]
    warnings: list[str]


class BillRequest(TypedDict):
    """What a provider billed for whole days of a pool. Without a flavor, the pool's of today."""

    pool: str
    from_day: str
    to_day: str
    billed_micro_usd: int
    flavor: NotRequired[str]


class BillTaken(TypedDict):
    """What came of a bill: the difference is booked as an adjustment."""

    pool: str
    flavor: str
    from_day: str
    to_day: str
    metered_micro_usd: int
    billed_micro_usd: int
    adjustment_micro_usd: int


class PlanEstimate(TypedDict):
    """What a job would cost on one pool: with even odds (P50) and nine in ten (P90).

    ``is_allowed`` is whether the job's own markets allow the pool. Where the job is not expected to
    end, there are no figures and a reason. Waiting is not in it.
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
    """One line of an export: a day of a job at a place, or of what nobody used there."""

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
