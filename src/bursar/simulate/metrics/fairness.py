"""Fairness between teams: GPU time received against entitlement, window by window.

The entitlement of a team in a window is its max-min fair share of the GPU time allocated in it: in
proportion to its quota (or weight), but at most what it held or waited for; what a team does not need
is shared by the others in the same proportion. So low demand does not count as unfairness, nor does
using capacity that others leave idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from bursar.model.units import HOUR_MS
from bursar.simulate.metrics.teams import TeamAccount, TeamAccounts

WINDOW_MS = HOUR_MS
"""Fixed, so that runs of different length are comparable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fairness:
    """``share_error`` is |share of the allocated GPU time - entitlement|, between 0 and 1.

    Its mean is over windows in which at least two teams had demand, and over those teams. ``jain`` is
    Jain's index of satisfied demand (GPU time held of that held or waited for): 1 when all teams are
    served equally, 1/n when one of n is served alone. The worst team received the smallest fraction of
    its entitlement.
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
    """Max-min fair shares of a total: in proportion to claims, each at most its demand.

    Teams without a claim share the remainder in proportion to their demands.
    """
    shares = [0.0] * len(demands)
    claiming = [one for one, demand in enumerate(demands) if demand > 0 and claims[one] > 0]
    claiming.sort(key=lambda one: (demands[one] / claims[one], one))
    remaining = float(total)
    # Summed from the end: subtracting claims one by one would accumulate rounding errors.
    weights = list(accumulate(claims[one] for one in reversed(claiming)))[::-1]
    for one, weight in zip(claiming, weights, strict=True):
        shares[one] = min(demands[one], remaining * (claims[one] / weight))
        remaining -= shares[one]
    others = [one for one, demand in enumerate(demands) if demand > 0 and claims[one] <= 0]
    other_demand = sum(demands[one] for one in others)
    for one in others:
        shares[one] = min(demands[one], remaining * demands[one] / other_demand)
    return tuple(shares)


class FairnessMeter:
    """Compares teams at the end of every window; stores only sums."""

    def __init__(self, accounts: TeamAccounts) -> None:
        self._accounts = accounts
        self._began_ms = 0
        self.next_ms = 0
        self._held: list[int] = []
        self._demand: list[int] = []
        self._error_ms = 0.0
        self._measured_ms = 0
        self._largest = 0.0

    def begin(self, at_ms: int) -> None:
        self._began_ms = at_ms
        self.next_ms = at_ms + WINDOW_MS

    def advance_to(self, now_ms: int) -> None:
        """Closes every window that has ended; those without changes are closed as one."""
        self.close(self.next_ms)
        windows = (now_ms - self._began_ms) // WINDOW_MS
        if windows:
            self.close(self._began_ms + windows * WINDOW_MS)

    def close(self, at_ms: int) -> None:
        """Ends the current window and begins the next."""
        span_ms = at_ms - self._began_ms
        if span_ms <= 0:
            return
        accounts = self._accounts.all
        held = [account.held.total(at_ms) for account in accounts]
        demand = [account.demand(at_ms) for account in accounts]
        self._compare(_since(held, self._held), _since(demand, self._demand), span_ms)
        self._held, self._demand = held, demand
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
        """The result at the end of the run, which must be the end of a window."""
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
    """The fraction of its entitlement that a team received; 1 without an entitlement."""
    return account.held.total(at_ms) / account.entitled if account.entitled > 0 else 1.0


def jain(values: Sequence[float]) -> float:
    """Jain's fairness index; 1 without values, and when all are zero."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def _since(now: list[int], before: list[int]) -> list[int]:
    """The increase of each team's total; teams that joined since began at zero."""
    padded = before + [0] * (len(now) - len(before))
    return [new - old for new, old in zip(now, padded, strict=True)]
