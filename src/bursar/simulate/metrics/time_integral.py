"""A quantity that stays as it is until it changes, and its integral over time."""

from __future__ import annotations


class TimeIntegral:
    """Adds up ``rate`` times milliseconds, exactly, at the cost of the changes alone.

    The integral up to T is the sum of every change times the time since it: ``rate * T`` less the sum
    of ``change * moment of the change``. So a change is two additions, no clock has to visit the meter,
    and it can be read at any moment that is not before its last change.
    """

    __slots__ = ("_moments", "rate")

    def __init__(self) -> None:
        self.rate = 0
        self._moments = 0

    def change(self, by: int, at_ms: int) -> None:
        """From ``at_ms`` on the quantity is so much more."""
        self.rate += by
        self._moments += by * at_ms

    def set(self, to: int, at_ms: int) -> None:
        """From ``at_ms`` on the quantity is this."""
        by = to - self.rate
        if by:
            self.rate = to
            self._moments += by * at_ms

    def total(self, at_ms: int) -> int:
        """The integral up to ``at_ms``."""
        return self.rate * at_ms - self._moments
