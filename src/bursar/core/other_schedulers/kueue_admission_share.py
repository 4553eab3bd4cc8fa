"""Kueue's admission fair sharing: orders jobs by their local queue's usage.

Kueue's admission fair sharing orders the jobs of one cluster queue by the history of the local
queue they came through. History is sampled: at every sampling interval the consumed amount moves
towards what is admitted now, by ``alpha = 1 - 0.5 ** (elapsed / half-life)``. Between two samples
a burst would be free, so a nominated job is charged an entry penalty at once: its own usage for
one interval.

Bursar's own order uses :mod:`bursar.core.state.tenant_usage`, which needs neither samples nor penalties. This
module reproduces Kueue's published semantics for clusters that Kueue manages, where forecasts must
use Kueue's order.
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
    """The sort inputs of a waiting job. ``sticky``: it is waiting for its victims to end."""

    job: str
    local_queue: str
    priority: int = 0
    queued_at_ms: int = 0
    sticky: bool = False


def alpha(elapsed_ms: int, half_life_ms: int) -> float:
    """The fraction by which consumption approaches current use; 0 without a half-life."""
    if half_life_ms == 0:
        return 0.0
    return 1.0 - exp2(-max(elapsed_ms, 0) / half_life_ms)


def sample(consumed: Amounts, in_use: Amounts, elapsed_ms: int, half_life_ms: int) -> Amounts:
    """Consumption after the next sample. With a half-life of 0 every sample resets it.

    (By the formula alone a half-life of 0 would mean "never update"; Kueue resets.)
    """
    if half_life_ms == 0:
        return {}
    return _interpolate(consumed, in_use, alpha(elapsed_ms, half_life_ms))


def entry_penalty(requests: Amounts, rules: AdmissionShareRules) -> Amounts:
    """The charge for a nominated job that the next sample does not yet include."""
    fraction = alpha(rules.sampling_interval_ms, rules.half_life_ms)
    return {resource: requests[resource] * fraction for resource in sorted(requests)}


def usage_score(
    consumed: Amounts, penalty: Amounts, queue_weight: float, resource_weights: Amounts
) -> float:
    """One number per local queue; lower goes first. A queue of weight 0 goes last.

    Its score is infinity, because an idle queue of weight 0 would divide 0 by 0, and NaN does
    not sort.
    """
    if queue_weight <= 0:
        return inf
    total = _sum(consumed, penalty)
    weighted = (resource_weights.get(name, 1) * total[name] for name in sorted(total))
    return sum(weighted) / queue_weight


class AdmissionShares:
    """The history and the open entry penalties of every local queue of one cluster queue."""

    def __init__(self, rules: AdmissionShareRules, weights: Mapping[str, float]) -> None:
        """``weights`` by local queue; a missing one (a deleted queue, for example) is 1."""
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
        """Update the local queue's history to now; ``in_use`` is what it has admitted."""
        elapsed_ms = now_ms - self._sampled_at_ms.get(local_queue, now_ms)
        consumed = self._consumed.get(local_queue, {})
        self.restore(
            local_queue, sample(consumed, in_use, elapsed_ms, self.rules.half_life_ms), now_ms
        )

    def nominate(self, local_queue: str, job: str, requests: Amounts) -> None:
        """Charge a job before its admission attempt. Nominating it again replaces the charge."""
        penalties = self._penalties.setdefault(local_queue, {})
        penalties[job] = entry_penalty(requests, self.rules)

    def refuse(self, local_queue: str, job: str) -> None:
        """Refund the charge of a job that was not admitted."""
        self._penalties.get(local_queue, {}).pop(job, None)

    def admit(self, local_queue: str, job: str, in_use: Amounts, now_ms: int) -> None:
        """Add the job's charge to the history. ``in_use`` is what was admitted before it.

        Unlike a sample this never resets the history, even with a half-life of 0.
        """
        elapsed_ms = now_ms - self._sampled_at_ms.get(local_queue, now_ms)
        updated = _interpolate(
            self._consumed.get(local_queue, {}),
            in_use,
            alpha(elapsed_ms, self.rules.half_life_ms),
        )
        charge = self._penalties.get(local_queue, {}).pop(job, {})
        self.restore(local_queue, _sum(updated, charge), now_ms)

    def consumed(self, local_queue: str) -> Amounts:
        return self._consumed.get(local_queue, {})

    def usage(self, local_queue: str) -> float:
        """The local queue's score: history plus open penalties, divided by its weight."""
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
    """The jobs of one cluster queue, next to be tried first.

    ``shares=None``: the queue has no admission fair sharing, and history is ignored.
    """
    waiting = list(jobs)
    scores: dict[str, float] = {}
    if shares is not None:
        scores = {name: shares.usage(name) for name in {job.local_queue for job in waiting}}

    def sort_key(job: WaitingJob) -> tuple[bool, float, int, int, str]:
        score = scores.get(job.local_queue, 0.0)
        return (not job.sticky, score, -job.priority, job.queued_at_ms, job.job)

    return sorted(waiting, key=sort_key)


def _interpolate(consumed: Amounts, in_use: Amounts, fraction: float) -> Amounts:
    """Interpolate from ``consumed`` to ``in_use`` by ``fraction``."""
    return {
        name: (1.0 - fraction) * consumed.get(name, 0) + fraction * in_use.get(name, 0)
        for name in sorted({*consumed, *in_use})
    }


def _sum(left: Amounts, right: Amounts) -> Amounts:
    return {name: left.get(name, 0) + right.get(name, 0) for name in sorted({*left, *right})}
