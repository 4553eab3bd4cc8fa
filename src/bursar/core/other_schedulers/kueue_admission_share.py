"""Kueue's admission fair sharing: orders jobs by their local queue's usage.

Kueue's admission fair sharing orders the jobs of one cluster queue by the history of the local
queue they came through. History is sampled: at every sampling interval the consumed amount moves
towards what is admitted now, by ``alpha = 1 - 0.5 ** (elapsed / half-life)``. Between two samples
a burst would be free, so a job that is nominated pays an entry penalty at once: one interval's
worth of itself.

Bursar's own order uses :mod:`bursar.core.state.tenant_usage`, which needs neither samples nor penalties. This
module reproduces Kueue's published semantics for clusters that Kueue governs: forecasts there
must order as Kueue will.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import exp2, inf

Amounts = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionShareRules:
    """The cluster-wide settings. A resource without a weight weighs 1."""

    half_life_ms: int
    sampling_interval_ms: int = 300_000
    resource_weights: Amounts = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJob:
    """What the order depends on. ``sticky`` is a job that is waiting for its victims to leave."""

    job: str
    local_queue: str
    priority: int = 0
    queued_at_ms: int = 0
    sticky: bool = False


def alpha(elapsed_ms: int, half_life_ms: int) -> float:
    """How far consumption moves towards current use in ``elapsed_ms``; 0 without a half-life."""
    if half_life_ms == 0:
        return 0.0
    return 1.0 - exp2(-max(elapsed_ms, 0) / half_life_ms)


def sample(consumed: Amounts, in_use: Amounts, elapsed_ms: int, half_life_ms: int) -> Amounts:
    """Consumption one sample later. A half-life of 0 keeps no history: every sample resets it.

    (The formula alone would read a half-life of 0 as "never update"; Kueue resets.)
    """
    if half_life_ms == 0:
        return {}
    return _move(consumed, in_use, alpha(elapsed_ms, half_life_ms))


def entry_penalty(requests: Amounts, rules: AdmissionShareRules) -> Amounts:
    """What a nominated job costs its local queue before the next sample can see it."""
    part = alpha(rules.sampling_interval_ms, rules.half_life_ms)
    return {resource: requests[resource] * part for resource in sorted(requests)}


def usage_score(
    consumed: Amounts, penalty: Amounts, queue_weight: float, resource_weights: Amounts
) -> float:
    """One number per local queue; lower goes first. A queue without weight always goes last.

    Infinity rather than a division: an idle queue of weight 0 would score 0/0, and that compares as
    neither before nor after anything.
    """
    if queue_weight <= 0:
        return inf
    total = _sum(consumed, penalty)
    weighted = (resource_weights.get(name, 1) * total[name] for name in sorted(total))
    return sum(weighted) / queue_weight


class AdmissionShares:
    """The history and the open entry penalties of every local queue of one cluster queue."""

    __slots__ = ("_consumed", "_penalties", "_sampled_at_ms", "_weights", "rules")

    def __init__(self, rules: AdmissionShareRules, weights: Mapping[str, float]) -> None:
        """``weights`` of the local queues; one that is missing (deleted, say) weighs 1."""
        self.rules = rules
        self._weights = dict(weights)
        self._consumed: dict[str, Amounts] = {}
        self._sampled_at_ms: dict[str, int] = {}
        self._penalties: dict[str, dict[str, Amounts]] = {}

    def restore(self, local_queue: str, consumed: Amounts, at_ms: int) -> None:
        """Set a history that was stored elsewhere."""
        self._consumed[local_queue] = dict(consumed)
        self._sampled_at_ms[local_queue] = at_ms

    def sample(self, local_queue: str, in_use: Amounts, now_ms: int) -> None:
        """Move the local queue's history to now; ``in_use`` is what it has admitted."""
        elapsed_ms = now_ms - self._sampled_at_ms.get(local_queue, now_ms)
        consumed = self._consumed.get(local_queue, {})
        self.restore(
            local_queue, sample(consumed, in_use, elapsed_ms, self.rules.half_life_ms), now_ms
        )

    def nominate(self, local_queue: str, job: str, requests: Amounts) -> None:
        """Charge a job that is about to be tried. Nominating it again replaces its charge."""
        penalties = self._penalties.setdefault(local_queue, {})
        penalties[job] = entry_penalty(requests, self.rules)

    def refuse(self, local_queue: str, job: str) -> None:
        """Give the charge back: the job was tried and not admitted."""
        self._penalties.get(local_queue, {}).pop(job, None)

    def admit(self, local_queue: str, job: str, in_use: Amounts, now_ms: int) -> None:
        """Turn the job's charge into history. ``in_use`` is what was admitted up to now.

        Unlike a sample this never resets: with a half-life of 0 the history simply stays.
        """
        elapsed_ms = now_ms - self._sampled_at_ms.get(local_queue, now_ms)
        moved = _move(
            self._consumed.get(local_queue, {}),
            in_use,
            alpha(elapsed_ms, self.rules.half_life_ms),
        )
        charge = self._penalties.get(local_queue, {}).pop(job, {})
        self.restore(local_queue, _sum(moved, charge), now_ms)

    def consumed(self, local_queue: str) -> Amounts:
        return self._consumed.get(local_queue, {})

    def usage(self, local_queue: str) -> float:
        """The local queue's score: history and open penalties over its weight."""
        penalty: Amounts = {}
        charges = self._penalties.get(local_queue, {})
        for job in sorted(charges):
            penalty = _sum(penalty, charges[job])
        return usage_score(
            self._consumed.get(local_queue, {}),
            penalty,
            self._weights.get(local_queue, 1),
            self.rules.resource_weights,
        )


def in_queue_order(jobs: Iterable[WaitingJob], shares: AdmissionShares | None) -> list[WaitingJob]:
    """The jobs of one cluster queue, the next to be tried first.

    ``shares=None`` is a queue (or a cluster) without admission fair sharing: history does not
    count.
    """
    waiting = list(jobs)
    scores: dict[str, float] = {}
    if shares is not None:
        scores = {name: shares.usage(name) for name in {job.local_queue for job in waiting}}

    def place(job: WaitingJob) -> tuple[bool, float, int, int, str]:
        score = scores.get(job.local_queue, 0.0)
        return (not job.sticky, score, -job.priority, job.queued_at_ms, job.job)

    return sorted(waiting, key=place)


def _move(consumed: Amounts, in_use: Amounts, part: float) -> Amounts:
    """The amount that lies ``part`` of the way from ``consumed`` to ``in_use``."""
    return {
        name: (1.0 - part) * consumed.get(name, 0) + part * in_use.get(name, 0)
        for name in sorted({*consumed, *in_use})
    }


def _sum(left: Amounts, right: Amounts) -> Amounts:
    return {name: left.get(name, 0) + right.get(name, 0) for name in sorted({*left, *right})}
