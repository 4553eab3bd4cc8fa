"""How often Slurm's scheduler should look for work on a cluster that Bursar drives. Pure."""

from __future__ import annotations

from collections.abc import Mapping

QUICK: Mapping[str, int | None] = {
    "bf_interval": 1,
    "bf_continue": None,
    "bf_max_job_test": 100,
    "bf_resolution": 10,
    "sched_interval": 1,
    "batch_sched_delay": 0,
}
"""What Bursar sends has room already: two cheap passes a second start it soon. 100 waiting jobs are more than
it ever keeps in Slurm's queue."""
QUICK_LINE = "SchedulerParameters=" + ",".join(
    name if value is None else f"{name}={value}" for name, value in QUICK.items()
)

UNSAID_SECONDS = {"batch_sched_delay": 3, "bf_interval": 30}
"""What Slurm takes where slurm.conf says nothing. A job waits for the first of the two that comes round."""


def advice(parameters: str) -> str:
    """What an operator should know whose ``SchedulerParameters`` are these; nothing if they are quick."""
    said = dict(word.partition("=")[::2] for word in parameters.split(","))
    slow = []
    for name, unsaid in UNSAID_SECONDS.items():
        told = said.get(name, "")
        seconds = int(told) if told.isdecimal() else unsaid
        if seconds > (QUICK[name] or 0):
            slow.append(f"{name} is {seconds} s{'' if name in said else ' by default'}")
    if not slow:
        return ""
    return (
        f"Slurm starts jobs only when its scheduler comes round, which is rarer than need be: "
        f"{' and '.join(slow)}. For many short jobs put this into slurm.conf, then 'scontrol reconfigure': "
        f"{QUICK_LINE}"
    )
