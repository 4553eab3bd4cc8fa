"""Recommended settings of Slurm's scheduler on a cluster that Bursar drives. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FAST: Mapping[str, int | None] = {
    "bf_interval": 1,
    "bf_continue": None,
    "bf_max_job_test": 100,
    "bf_resolution": 10,
    "sched_interval": 1,
    "batch_sched_delay": 0,
}
"""Bursar submits only jobs that fit, so frequent cheap passes start them soon. It never has 100 jobs pending
in Slurm's queue."""
FAST_LINE = "SchedulerParameters=" + ",".join(
    name if value is None else f"{name}={value}" for name, value in FAST.items()
)
EPILOG_LINE = "Epilog=/bin/true"
"""A node with an epilog reports its end, and only that report triggers a scheduling pass at once. The timer
alone triggers one or two a second."""
FAST_LINES = (FAST_LINE, EPILOG_LINE)

DEFAULT_SECONDS = {"batch_sched_delay": 3, "bf_interval": 30}
"""Slurm's defaults."""
UNSET = ("", "(null)")


@dataclass(frozen=True, slots=True)
class SettingAdvice:
    """Settings that delay starts, and the lines of slurm.conf that fix them."""

    slow: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def problem(self) -> str:
        return f"Slurm's scheduler runs less often than necessary: {', '.join(self.slow)}."

    @property
    def fix(self) -> str:
        return (
            "For many short jobs add to slurm.conf, then run 'scontrol reconfigure': "
            f"{' and '.join(self.lines)}"
        )


def advice(config: Mapping[str, str]) -> SettingAdvice | None:
    """Advice for a configuration as ``scontrol show config`` prints it; None if it is fast."""
    slow = [*_slow_clock(config.get("SchedulerParameters", ""))]
    lines = [FAST_LINE] if slow else []
    if not _has_end_reports(config):
        slow.append("without an Epilog nodes do not report the end of a job")
        lines.append(EPILOG_LINE)
    return SettingAdvice(tuple(slow), tuple(lines)) if slow else None


def _slow_clock(parameters: str) -> list[str]:
    values = dict(item.partition("=")[::2] for item in parameters.split(","))
    slow = []
    for name, default_seconds in DEFAULT_SECONDS.items():
        value = values.get(name, "")
        seconds = int(value) if value.isdecimal() else default_seconds
        if seconds > (FAST[name] or 0):
            slow.append(f"{name} is {seconds} s{'' if name in values else ' by default'}")
    return slow


def _has_end_reports(config: Mapping[str, str]) -> bool:
    """With ``PrologFlags=Contain`` each job has an extern step, whose end is reported too."""
    has_epilog = config.get("Epilog", "") not in UNSET
    return has_epilog or "contain" in config.get("PrologFlags", "").lower()
