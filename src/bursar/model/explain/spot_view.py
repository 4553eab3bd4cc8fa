"""Expected cost by pool, checkpoint advice and deadline slack of a job that may use spot.

Computed by ``core/explain/spot_view.py``; the texts are written here.
"""

from __future__ import annotations

from dataclasses import dataclass

from bursar.model.fleet.fleet import Market
from bursar.model.units import write_duration, write_usd

PERCENT_PERMILLE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCost:
    """Expected cost of the job in one pool, lost work included.

    ``expected_run_ms`` is None if interruptions are so frequent that the job would never end. With
    ``anchors``, ``anchor_tasks`` run in that non-spot pool and only the others can be interrupted.
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
        pool = f"{self.pool} ({self.market}) at {hourly} an hour"
        if self.anchors is not None:
            anchors = f"with {self.anchor_tasks} of {self.tasks} tasks as anchors in {self.anchors}"
            pool = f"{self.pool} ({self.market}) {anchors} at {hourly} an hour"
        if self.between_ms is None:
            return f"{pool} for {write_duration(self.run_ms)}: {write_usd(self.expected_micro_usd)}"
        saves = "no checkpoints"
        if self.saves_every_ms is not None:
            saves = f"a save every {write_duration(self.saves_every_ms)}"
        conditions = f"an interruption every {write_duration(self.between_ms)} and {saves}"
        if self.expected_run_ms is None:
            return f"{pool}: with {conditions} it would never end"
        return (
            f"{pool} for {write_duration(self.expected_run_ms)} instead of "
            f"{write_duration(self.run_ms)}, with {conditions}: {write_usd(self.expected_micro_usd)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAdviceView:
    """How often to save (Young, Daly). Waste is the fraction of time spent on saves and lost work."""

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
        lost = "would hardly ever end"
        if self.waste_permille is not None:
            lost = f"wastes {self.waste_permille / PERCENT_PERMILLE:g} % of its time"
        known = "measured" if self.is_measured else "assumed, not measured yet"
        return (
            f"{now} and {lost} in {self.pool}, which interrupts it every "
            f"{write_duration(self.between_ms)}; a save every {write_duration(self.advised_every_ms)} would "
            f"waste {self.advised_waste_permille / PERCENT_PERMILLE:g} %, "
            f"with {write_duration(self.save_ms)} for a save ({known})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineView:
    """Work and time left to the deadline, and how long spot is safe."""

    left_ms: int
    to_deadline_ms: int
    spot_safe_ms: int
    is_on_spot: bool

    def __str__(self) -> str:
        work, time = write_duration(self.left_ms), write_duration(max(0, self.to_deadline_ms))
        text = f"{work} of unsaved work, {time} left to the deadline"
        if self.spot_safe_ms <= 0:
            return f"{text}: only non-spot capacity is certain to meet it"
        until = write_duration(self.spot_safe_ms)
        if self.is_on_spot:
            return f"{text}; it stays on spot for at most {until}, longer if it saves work by then"
        return f"{text}; spot is safe for another {until}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotView:
    """Spot costs, checkpoint advice and deadline of a job; pools in order of preference."""

    costs: tuple[PoolCost, ...] = ()
    advice: CheckpointAdviceView | None = None
    deadline: DeadlineView | None = None

    def lines(self) -> tuple[str, ...]:
        """The view as text."""
        deadline = [] if self.deadline is None else [f"Deadline: {self.deadline}."]
        costs = [f"Expected cost: {cost}." for cost in self.costs]
        advice = [] if self.advice is None else [f"Checkpoints: {self.advice}."]
        return (*deadline, *costs, *advice)
