"""Usage that fades: what a tenant used long ago weighs less than what it used today.

Slurm and Kueue apply decay by visiting every tenant at every sampling interval, and both
approximate what happens between two samples. Here nobody is visited. An account remembers one
value, the rate at which it is growing and the moment both were true; the value at any later
moment follows from a closed formula. Nothing needs doing while nothing changes, and the answer
does not depend on how often anyone asked.

Units: a rate is any whole number per millisecond (for example micro-dollars per hour, or GPUs of a
reference model), and usage is that rate times milliseconds. Fair sharing only compares usages with
each other, so the unit never has to be converted.
"""

from __future__ import annotations

from math import exp, expm1, log

Amount = int | float
"""A whole number where nothing fades, which a float would round."""


class Decay:
    """How history fades, with half-life h.

    ``U(t + d) = U(t) * 2^(-d/h) + R * (h / ln 2) * (1 - 2^(-d/h))`` while the rate R is constant.

    Two half-lives are special. ``None`` never forgets: ``U(t + d) = U(t) + R * d``, in whole
    numbers. ``0`` remembers nothing: usage *is* the current rate. (The limit of the formula is
    ``R * h / ln 2``; the factor is the same for everybody, and zero, so we drop it and keep the
    order of tenants that the formula has in the limit.)
    """

    __slots__ = ("fade_per_ms", "half_life_ms", "mean_life_ms")

    def __init__(self, half_life_ms: int | None) -> None:
        if half_life_ms is not None and half_life_ms < 0:
            raise ValueError(
                f"half_life_ms is {half_life_ms}; write 0 (no history) or more, or None"
            )
        self.half_life_ms = half_life_ms
        self.mean_life_ms = half_life_ms / log(2) if half_life_ms else 0.0
        self.fade_per_ms = log(2) / half_life_ms if half_life_ms else 0.0

    def after(self, value: Amount, rate_per_ms: int, elapsed_ms: int) -> Amount:
        """What ``value``, growing at a constant rate, has become ``elapsed_ms`` later."""
        if self.half_life_ms:
            faded = -elapsed_ms * self.fade_per_ms
            if rate_per_ms:
                return value * exp(faded) - rate_per_ms * self.mean_life_ms * expm1(faded)
            return value * exp(faded)
        if self.half_life_ms is None:
            return value + rate_per_ms * elapsed_ms
        return rate_per_ms


class UsageAccount:
    """One decayed total: its value and rate as they were at ``at_ms``.

    The law is linear, so facts may arrive late: a change that took effect before ``at_ms`` adds
    exactly what it has contributed since. Any order of the same changes ends in the same usage.
    """

    __slots__ = ("_decay", "_fade_per_ms", "_mean_life_ms", "at_ms", "rate_per_ms", "value")

    def __init__(self, decay: Decay, at_ms: int = 0) -> None:
        self._decay = decay
        self._fade_per_ms = decay.fade_per_ms
        self._mean_life_ms = decay.mean_life_ms
        self.value: Amount = 0
        self.rate_per_ms = 0
        self.at_ms = at_ms

    def value_at(self, now_ms: int) -> Amount:
        """The usage at ``now_ms``; before the last change, the usage at the last change."""
        elapsed_ms = now_ms - self.at_ms
        return self._decay.after(self.value, self.rate_per_ms, elapsed_ms if elapsed_ms > 0 else 0)

    def change_rate(self, delta_per_ms: int, now_ms: int) -> None:
        """Grow faster (or slower) from ``now_ms`` on; in whole numbers, so all stops end at 0.

        Every start and every end comes here for each tenant above it, so the law of :meth:`Decay.after`
        is written out for the usual case.
        """
        elapsed_ms = now_ms - self.at_ms
        if elapsed_ms > 0:
            rate_per_ms = self.rate_per_ms
            if self._fade_per_ms and rate_per_ms:
                faded = -elapsed_ms * self._fade_per_ms
                grown = rate_per_ms * self._mean_life_ms * expm1(faded)
                self.value = self.value * exp(faded) - grown
            else:
                self.value = self._decay.after(self.value, rate_per_ms, elapsed_ms)
            self.at_ms = now_ms
        elif elapsed_ms < 0:
            self.value += self._decay.after(0, delta_per_ms, -elapsed_ms)
        elif self._decay.half_life_ms == 0:
            self.value = self.rate_per_ms
        self.rate_per_ms += delta_per_ms

    def add(self, amount: Amount, now_ms: int) -> None:
        """Count an amount used at once at ``now_ms``: a correction, or history brought along."""
        if now_ms >= self.at_ms:
            self.value = self.value_at(now_ms) + amount
            self.at_ms = now_ms
        else:
            self.value += self._decay.after(amount, 0, self.at_ms - now_ms)
