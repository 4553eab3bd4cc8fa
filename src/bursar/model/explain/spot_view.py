"""What spot means for one job, in values: what each pool is expected to cost, how often to save, and what
its deadline allows. Worked out by ``core/explain/spot_view.py``; the sentences are written here."""

from __future__ import annotations

from dataclasses import dataclass

from bursar.model.fleet.fleet import Market
from bursar.model.units import write_duration, write_usd

PERCENT_PERMILLE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCost:
    """A pool that could run the job, and what it is expected to cost there with what is done again.

    ``expected_run_ms`` is None where the job is interrupted so often that it would not end. With ``anchors``
    so many of its tasks stand in that pool, and only the others can be interrupted.
    """

    pool: str
    market: Market
    anchors: str | None = None
    anchor_tasks: int = 0
    tasks: int = 1
    micro_usd_per_hour: int
    run_ms: int
    expected_run_ms: int | None
    expected_micro_usd: int
    between_ms: int | None
    saves_every_ms: int | None

    def __str__(self) -> str:
        hourly = write_usd(self.micro_usd_per_hour)
        told = f"{self.pool} ({self.market}) at {hourly} an hour"
        if self.anchors is not None:
            beside = f"with {self.anchor_tasks} of {self.tasks} tasks as anchors in {self.anchors}"
            told = f"{self.pool} ({self.market}) {beside} at {hourly} an hour"
        if self.between_ms is None:
            return f"{told} for {write_duration(self.run_ms)}: {write_usd(self.expected_micro_usd)}"
        saves = "nothing saved on the way"
        if self.saves_every_ms is not None:
            saves = f"a save every {write_duration(self.saves_every_ms)}"
        often = f"an interruption every {write_duration(self.between_ms)} and {saves}"
        if self.expected_run_ms is None:
            return f"{told}: with {often} it would not end"
        return (
            f"{told} for {write_duration(self.expected_run_ms)} instead of "
            f"{write_duration(self.run_ms)}, with {often}: {write_usd(self.expected_micro_usd)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAdviceView:
    """How often to save (Young, Daly). Waste is the part of the time that saves and losses take."""

    pool: str
    between_ms: int
    save_ms: int
    is_measured: bool
    saves_every_ms: int | None
    waste_permille: int | None
    advised_every_ms: int
    advised_waste_permille: int

    def __str__(self) -> str:
        now = "it saves nothing"
        if self.saves_every_ms is not None:
            now = f"it saves every {write_duration(self.saves_every_ms)}"
        lost = "so that it would hardly ever end"
        if self.waste_permille is not None:
            lost = f"which wastes {self.waste_permille / PERCENT_PERMILLE:g} % of its time"
        known = "as measured" if self.is_measured else "as is assumed until one is measured"
        return (
            f"{now}, {lost} in {self.pool}, where an interruption comes every "
            f"{write_duration(self.between_ms)}; a save every {write_duration(self.advised_every_ms)} would "
            f"waste {self.advised_waste_permille / PERCENT_PERMILLE:g} %, "
            f"with {write_duration(self.save_ms)} for a save, {known}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineView:
    """What the deadline of a job lets it do: how much is left, and until when spot is safe."""

    left_ms: int
    to_deadline_ms: int
    spot_safe_ms: int
    is_on_spot: bool

    def __str__(self) -> str:
        work, time = write_duration(self.left_ms), write_duration(max(0, self.to_deadline_ms))
        told = f"{work} of work are not saved yet and {time} are left to the deadline"
        if self.spot_safe_ms <= 0:
            return f"{told}: only capacity that nobody takes away is sure to be in time"
        until = write_duration(self.spot_safe_ms)
        if self.is_on_spot:
            return (
                f"{told}; it stays on spot for {until} more at the most, less what it saves by then"
            )
        return f"{told}; spot is safe for {until} more"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotView:
    """All of it; the pools in the order in which they would be chosen."""

    costs: tuple[PoolCost, ...] = ()
    advice: CheckpointAdviceView | None = None
    deadline: DeadlineView | None = None

    def lines(self) -> tuple[str, ...]:
        """As sentences."""
        deadline = [] if self.deadline is None else [f"Deadline: {self.deadline}."]
        costs = [f"Expected cost: {cost}." for cost in self.costs]
        advice = [] if self.advice is None else [f"Checkpoints: {self.advice}."]
        return (*deadline, *costs, *advice)
