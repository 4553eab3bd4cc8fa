"""The exact integral of a piecewise constant quantity over time."""

from __future__ import annotations


class TimeIntegral:
    """Integrates ``rate`` over milliseconds; only changes cost anything.

    The integral up to T is the sum of every change times the time since it: ``rate * T`` less the sum
    of ``change * time of the change``. It can be read at any time from the last change on.
    """

    __slots__ = ("_offset", "rate")

    def __init__(self) -> None:
        self.rate = 0
        self._offset = 0

    def change(self, by: int, at_ms: int) -> None:
        """Changes the rate by an amount from ``at_ms`` on."""
        self.rate += by
        self._offset += by * at_ms

    def set(self, to: int, at_ms: int) -> None:
        """Sets the rate from ``at_ms`` on."""
        by = to - self.rate
        if by:
            self.rate = to
            self._offset += by * at_ms

    def total(self, at_ms: int) -> int:
        """The integral up to ``at_ms``."""
        return self.rate * at_ms - self._offset
