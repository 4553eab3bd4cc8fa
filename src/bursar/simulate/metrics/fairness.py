"""Did everyone get what they were entitled to? Measured window by window.

The entitlement of a team in a window is its max-min fair part of the GPU time that was handed out in
it: in proportion to its quota (or weight), but never more than it held or waited for; what one does not
want goes to the others in the same proportion. So a team that asks for little is not counted as
wronged, and one that uses what others leave idle is not counted as greedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from bursar.model.units import HOUR_MS
from bursar.simulate.metrics.teams import TeamAccount, TeamAccounts

WINDOW_MS = HOUR_MS
"""Fixed, so that runs of different length are measured with the same yardstick."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fairness:
    """``share_error`` is |share of the GPU time handed out - entitlement|, between 0 and 1.

    Its mean is over windows in which at least two teams wanted GPUs, and over those teams. ``jain`` is
    Jain's index of satisfied demand (GPU time held of that held or waited for): 1 when all teams are
    served alike, 1/n when one of n is served alone. The worst team is the one that got the smallest
    part of what it was entitled to.
    """

    window_ms: int = WINDOW_MS
    share_error_mean: float = 0.0
    share_error_max: float = 0.0
    jain: float = 1.0
    worst_team: str | None = None
    worst_of_entitlement: float = 1.0


def entitlements(
    total: float, demands: Sequence[float], claims: Sequence[float]
) -> tuple[float, ...]:
    """Max-min fair parts of a total: by claim, at most the demand, the rest to those who want more.

    Those without a claim get what the others leave, in proportion to what they want.
    """
    given = [0.0] * len(demands)
    claiming = [one for one, demand in enumerate(demands) if demand > 0 and claims[one] > 0]
    claiming.sort(key=lambda one: (demands[one] / claims[one], one))
    left = float(total)
    # Sums from the end, because taking one claim after the other off a sum leaves rounding behind.
    weights = list(accumulate(claims[one] for one in reversed(claiming)))[::-1]
    for one, weight in zip(claiming, weights, strict=True):
        given[one] = min(demands[one], left * (claims[one] / weight))
        left -= given[one]
    others = [one for one, demand in enumerate(demands) if demand > 0 and claims[one] <= 0]
    wanted = sum(demands[one] for one in others)
    for one in others:
        given[one] = min(demands[one], left * demands[one] / wanted)
    return tuple(given)


class FairnessMeter:
    """Compares teams at the end of every window, and keeps sums alone."""

    def __init__(self, accounts: TeamAccounts) -> None:
        self._accounts = accounts
        self._began_ms = 0
        self.next_ms = 0
        self._held: list[int] = []
        self._wanted: list[int] = []
        self._error_ms = 0.0
        self._measured_ms = 0
        self._largest = 0.0

    def begin(self, at_ms: int) -> None:
        self._began_ms = at_ms
        self.next_ms = at_ms + WINDOW_MS

    def pass_to(self, now_ms: int) -> None:
        """Close every window that ends up to now; those in which nothing changed at once."""
        self.close(self.next_ms)
        whole = (now_ms - self._began_ms) // WINDOW_MS
        if whole:
            self.close(self._began_ms + whole * WINDOW_MS)

    def close(self, at_ms: int) -> None:
        """End the present window here and begin the next."""
        span_ms = at_ms - self._began_ms
        if span_ms <= 0:
            return
        accounts = self._accounts.all
        held = [account.held.total(at_ms) for account in accounts]
        wanted = [account.demand(at_ms) for account in accounts]
        used = _since(held, self._held)
        demand = _since(wanted, self._wanted)
        self._compare(used, demand, span_ms)
        self._held, self._wanted = held, wanted
        self.begin(at_ms)

    def _compare(self, used: list[int], demand: list[int], span_ms: int) -> None:
        total = sum(used)
        if not total:
            return
        fair = entitlements(total, demand, self._accounts.claims)
        errors = []
        for index, account in enumerate(self._accounts.all):
            account.entitled += fair[index]
            if demand[index]:
                errors.append(abs(used[index] - fair[index]) / total)
        if len(errors) > 1:
            self._measured_ms += span_ms
            self._error_ms += span_ms * sum(errors) / len(errors)
            self._largest = max(self._largest, *errors)

    def result(self, at_ms: int) -> Fairness:
        """What is known at the end of the run, which must be the end of a window."""
        served = [
            account.held.total(at_ms) / demand
            for account in self._accounts.all
            if (demand := account.demand(at_ms))
        ]
        worst = min(
            (account for account in self._accounts.all if account.entitled > 0),
            key=lambda account: (of_entitlement(account, at_ms), account.name),
            default=None,
        )
        return Fairness(
            share_error_mean=self._error_ms / self._measured_ms if self._measured_ms else 0.0,
            share_error_max=self._largest,
            jain=jain(served),
            worst_team=None if worst is None else worst.name,
            worst_of_entitlement=1.0 if worst is None else of_entitlement(worst, at_ms),
        )


def of_entitlement(account: TeamAccount, at_ms: int) -> float:
    """The GPU time a team got, as a part of what it was entitled to; 1 when it was entitled to none."""
    return account.held.total(at_ms) / account.entitled if account.entitled > 0 else 1.0


def jain(values: Sequence[float]) -> float:
    """Jain's index of fairness; 1 for no values, and when all are zero."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def _since(now: list[int], before: list[int]) -> list[int]:
    """What was added; teams that joined since had nothing before."""
    padded = before + [0] * (len(now) - len(before))
    return [new - old for new, old in zip(now, padded, strict=True)]
