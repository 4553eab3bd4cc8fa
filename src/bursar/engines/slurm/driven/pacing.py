"""How often Slurm's scheduler should look for work on a cluster that Bursar drives. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

QUICK: Mapping[str, int | None] = {
    "bf_interval": 1,
    "bf_continue": None,
    "bf_max_job_test": 100,
    "bf_resolution": 10,
    "sched_interval": 1,
    "batch_sched_delay": 0,
}
"""What Bursar sends has room already: cheap passes start it soon. 100 waiting jobs are more than it keeps in
Slurm's queue."""
QUICK_LINE = "SchedulerParameters=" + ",".join(
    name if value is None else f"{name}={value}" for name, value in QUICK.items()
)
EPILOG_LINE = "Epilog=/bin/true"
"""A node that has something to do after a job reports when it is done, and that report is the only thing that
brings a pass at once. The clock alone brings one or two a second."""
QUICK_LINES = (QUICK_LINE, EPILOG_LINE)

UNSAID_SECONDS = {"batch_sched_delay": 3, "bf_interval": 30}
"""What Slurm takes where slurm.conf says nothing."""
UNSET = ("", "(null)")


@dataclass(frozen=True, slots=True)
class SettingAdvice:
    """What makes starts late, and the lines of slurm.conf that mend it."""

    slow: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def found(self) -> str:
        return (
            "Slurm starts jobs only when its scheduler comes round, which is rarer than need be: "
            f"{', '.join(self.slow)}."
        )

    @property
    def fix(self) -> str:
        return (
            "For many short jobs put this into slurm.conf, then 'scontrol reconfigure': "
            f"{' and '.join(self.lines)}"
        )


def advice(config: Mapping[str, str]) -> SettingAdvice | None:
    """What an operator should know whose ``scontrol show config`` says this; nothing if it is quick."""
    slow = [*_slow_clock(config.get("SchedulerParameters", ""))]
    lines = [QUICK_LINE] if slow else []
    if not _has_end_reports(config):
        slow.append("no Epilog makes nodes report the end of a job")
        lines.append(EPILOG_LINE)
    return SettingAdvice(tuple(slow), tuple(lines)) if slow else None


def _slow_clock(parameters: str) -> list[str]:
    said = dict(word.partition("=")[::2] for word in parameters.split(","))
    slow = []
    for name, unsaid in UNSAID_SECONDS.items():
        told = said.get(name, "")
        seconds = int(told) if told.isdecimal() else unsaid
        if seconds > (QUICK[name] or 0):
            slow.append(f"{name} is {seconds} s{'' if name in said else ' by default'}")
    return slow


def _has_end_reports(config: Mapping[str, str]) -> bool:
    """``PrologFlags=Contain`` keeps a step for each job, whose end is reported too."""
    has_epilog = config.get("Epilog", "") not in UNSET
    return has_epilog or "contain" in config.get("PrologFlags", "").lower()
