"""Units as integers (milliseconds, micro-dollars, milli-GPUs) and their text forms."""

from __future__ import annotations

from typing import Final

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

MILLI: Final = 1_000
GIB_MIB: Final = 1_024
USD_MICRO: Final = 1_000_000


def round_up_run_time_ms(run_time_ms: int) -> int:
    """The next point of a grid whose steps are at most 12.5 %.

    Jobs whose limits differ by less than a step become one kind, and because the grid only rounds
    up, a reservation planned with it is never broken by it.
    """
    if run_time_ms <= 8 * SECOND_MS:
        return max(SECOND_MS, -(-run_time_ms // SECOND_MS) * SECOND_MS)
    step = 1 << (run_time_ms.bit_length() - 4)
    return -(-run_time_ms // step) * step


def write_duration(duration_ms: int) -> str:
    """``2 d 3 h``, ``45 min``, ``12 s``: at most two units."""
    if duration_ms < MINUTE_MS:
        return (
            f"{duration_ms / SECOND_MS:g} s"
            if duration_ms % SECOND_MS
            else f"{duration_ms // SECOND_MS} s"
        )
    minutes = duration_ms // MINUTE_MS
    days, minutes = divmod(minutes, 24 * 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{days} d" if days else "", f"{hours} h" if hours else ""]
    if not days and minutes:
        parts.append(f"{minutes} min")
    return " ".join(part for part in parts if part)


def write_usd(amount_micro_usd: int) -> str:
    """Dollars and cents; amounts under a cent have four digits so that they do not show as zero."""
    sign = "-" if amount_micro_usd < 0 else ""
    amount = abs(amount_micro_usd)
    if 0 < amount < USD_MICRO // 100:
        return f"{sign}${amount / USD_MICRO:.4f}"
    return f"{sign}${amount / USD_MICRO:,.2f}"


def counted(count: int, noun: str) -> str:
    """``1 job``, ``2 jobs``, ``12,000 GPUs``."""
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"


def write_gpus(gpu_milli: int) -> str:
    """Whole GPUs without decimals, fractions with as many as they need."""
    whole, rest = divmod(gpu_milli, MILLI)
    text = f"{whole:,}" if not rest else f"{gpu_milli / MILLI:.3f}".rstrip("0")
    return f"{text} GPU" if gpu_milli == MILLI else f"{text} GPUs"
