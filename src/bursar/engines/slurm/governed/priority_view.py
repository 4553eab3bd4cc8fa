"""A job's place by priority and share: sprio and sshare, in numbers with their words."""

from __future__ import annotations

from dataclasses import dataclass

from bursar.engines.slurm.commands.commands import SlurmRefused
from bursar.engines.slurm.commands.inventory import CommandRunner
from bursar.engines.slurm.commands.tables import table

SPRIO = (
    ("age", "%A"),
    ("fair share", "%F"),
    ("job size", "%J"),
    ("partition", "%P"),
    ("QOS", "%Q"),
    ("association", "%B"),
    ("site", "%S"),
    ("nice", "%N"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """What a job's priority is made of."""

    priority: int
    parts: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        told = [f"{value:,} for {name}" for name, value in self.parts if value and name != "nice"]
        nice = dict(self.parts).get("nice", 0)
        told += [f"less {nice:,} that its user gave up"] if nice else []
        return f"{self.priority:,}: {', '.join(told) or 'nothing speaks for it yet'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountShare:
    """An account, or a user in one, among its siblings. ``owed`` is share over use; more goes first."""

    name: str
    promised: float
    used: float
    factor: float | None

    def __str__(self) -> str:
        told = (
            f"{self.name} has used {100 * self.used:.1f} % of its level's total, its fair share is "
        )
        told += f"{100 * self.promised:.1f} %"
        return told if self.factor is None else f"{told}; its factor is {self.factor:.3f} of 1"


def read_factors(commands: CommandRunner, job_id: str) -> Factors | None:
    """None for a job that sprio does not list, as one that is held, or where it has nothing to say."""
    form = "|".join(code for _, code in SPRIO)
    asked = ("sprio", "-h", "-j", job_id.partition("_")[0], "-o", f"%Y|{form}")
    try:
        lines = [line for line in commands.run(*asked).splitlines() if "|" in line]
    except SlurmRefused:
        return None
    if not lines:
        return None
    priority, *values = lines[0].split("|")
    named = zip((name for name, _ in SPRIO), values, strict=False)
    return Factors(
        priority=int(float(priority)),
        parts=tuple((name, int(float(value or 0))) for name, value in named),
    )


def read_shares(commands: CommandRunner, account: str, user: str) -> tuple[AccountShare, ...]:
    """From the top account down to the user. Empty where the cluster counts no usage."""
    try:
        rows = table(commands.run("sshare", "-P", "-a", "-l"))
    except SlurmRefused:
        return ()
    path: list[dict[str, str]] = []
    for row in rows:
        depth = len(row["Account"]) - len(row["Account"].lstrip())
        del path[depth:]
        path.append(row)
        if row["Account"].strip() == account and row["User"] == user:
            return tuple(_share(one) for one in path[1:])
    return ()


def _share(row: dict[str, str]) -> AccountShare:
    name = f"user {row['User']}" if row["User"] else row["Account"].strip()
    return AccountShare(
        name=name,
        promised=float(row["NormShares"] or 0),
        used=float(row["EffectvUsage"] or 0),
        factor=float(row["FairShare"]) if row.get("FairShare") else None,
    )
