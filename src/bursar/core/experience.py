"""How long jobs run, learned from jobs like them that have ended.

Run times are kept as counts on a scale of doublings, for everyone and for each likeness: of one team, of
one user, of one size. What is expected of a job is a mixture of these, each level drawn towards the wider
one for as long as it has seen little. From the mixture comes what the job must still be given, at each
age, for the best chance of its ending per GPU second (the Gittins index): an hour old job of a user whose
jobs last minutes or days is expected to last days. Nothing is learned before a job ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bursar.model.units import SECOND_MS

Likeness = tuple[str | int, ...]

STEPS: Final = 25
"""Step k > 0 holds run times from 2^(k-1) to 2^k seconds, the first less than one, the last all above."""

LEAST_ENDED: Final = 16
"""Before so many jobs have ended, nothing is expected of anyone, and jobs are taken as they come."""

DOUBT: Final = 16.0
"""So many jobs does a level need before it weighs as much as the wider one."""

STALE_PART: Final = 16
"""What is expected of a likeness is worked out again when a part this small of its jobs is new."""


def step_of(run_ms: int) -> int:
    """Where a run time stands on the scale."""
    return min((run_ms // SECOND_MS).bit_length(), STEPS - 1)


def step_begins_ms(step: int) -> int:
    """The shortest run time of a step."""
    return SECOND_MS << (step - 1) if step else 0


_LENGTHS_MS: Final = [step_begins_ms(step + 1) - step_begins_ms(step) for step in range(STEPS)]


class Prospect:
    """What jobs of one likeness are expected to need in all, by how long they have run already.

    Most are asked for one age or for none, so each age is worked out when it is first asked for, from
    the counts as they were when the prospect was made.
    """

    __slots__ = ("_chances", "_counts", "_totals_ms")

    def __init__(self, counts: list[list[int]]) -> None:
        self._counts = counts
        self._chances: list[float] = []
        self._totals_ms: dict[int, int] = {}

    def total_ms(self, had_ms: int) -> int:
        """What was had, and what is still expected."""
        step = step_of(had_ms)
        total_ms = self._totals_ms.get(step)
        if total_ms is None:
            self._chances = self._chances or _chances(self._counts)
            total_ms = self._totals_ms[step] = _total_ms(self._chances, step)
        return total_ms + had_ms - step_begins_ms(step)


class Peers:
    """The jobs that are like one another: counts of their run times for each likeness, widest first.

    Jobs of one user, name and size look for the same peers again and again; what was found is kept, with
    what is expected of them until enough of their jobs are new.
    """

    __slots__ = ("levels", "prospect", "stale_above")

    def __init__(self, levels: list[list[int]]) -> None:
        self.levels = levels
        self.prospect: Prospect | None = None
        self.stale_above = [-1] * len(levels)

    def look_again(self) -> Prospect:
        """What is expected by what is known now; levels that have seen nothing have no say."""
        seen = [counts[STEPS] for counts in self.levels]
        self.stale_above = [ended + ended // STALE_PART for ended in seen]
        self.prospect = Prospect([counts.copy() for counts in self.levels if counts[STEPS]])
        return self.prospect


class Experience:
    """The run times of jobs that have ended."""

    def __init__(self) -> None:
        self._ended: dict[Likeness, list[int]] = {}
        self._peers: dict[tuple[Likeness, ...], Peers] = {}
        self.jobs = 0

    def peers(self, likenesses: tuple[Likeness, ...]) -> Peers:
        """Those who share these likenesses, widest first."""
        found = self._peers.get(likenesses)
        if found is None:
            levels = [self._ended.setdefault(one, [0] * (STEPS + 1)) for one in likenesses]
            found = self._peers[likenesses] = Peers(levels)
        return found

    def add(self, peers: Peers, run_ms: int) -> None:
        """A job has ended that was one of these."""
        self.jobs += 1
        step = step_of(run_ms)
        for counts in peers.levels:
            counts[step] += 1
            counts[STEPS] += 1

    def prospect(self, peers: Peers) -> Prospect | None:
        """What is expected of one of these; None while hardly anything has ended."""
        if self.jobs < LEAST_ENDED:
            return None
        for counts, most in zip(peers.levels, peers.stale_above, strict=True):
            if counts[STEPS] > most:
                return peers.look_again()
        return peers.prospect


def _chances(levels: Sequence[list[int]]) -> list[float]:
    """How likely a job ends in each step; all are alike before anything is known."""
    chances = [1.0 / STEPS] * STEPS
    for counts in levels:
        whole = counts[STEPS] + DOUBT
        chances = [
            (count + DOUBT * wider) / whole
            for count, wider in zip(counts[:STEPS], chances, strict=True)
        ]
    return chances


def _total_ms(chances: Sequence[float], first: int) -> int:
    """When a step begins, and the least time per chance of ending from there on.

    Going on from one step to the end of another costs time to those who end on the way and to those who
    do not, and ends the job with some chance; the best such stretch is what counts.
    """
    alive = sum(chances[first:])
    best = spent = ends = 0.0
    for step in range(first, len(chances)):
        chance = chances[step]
        spent += (alive - ends - chance / 2) * _LENGTHS_MS[step]
        ends += chance
        if not best or spent / ends < best:
            best = spent / ends
    return step_begins_ms(first) + max(1, round(best))
