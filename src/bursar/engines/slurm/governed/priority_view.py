"""A job's priority factors and fair shares, from sprio and sshare."""

from __future__ import annotations

from dataclasses import dataclass

from bursar.engines.slurm.commands.commands import SlurmRefused
from bursar.engines.slurm.commands.inventory import CommandRunner
from bursar.slurm_text import parse_table

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
    """The factors of a job's priority."""

    priority: int
    parts: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        parts = [f"{value:,} for {name}" for name, value in self.parts if value and name != "nice"]
        nice = dict(self.parts).get("nice", 0)
        parts += [f"minus {nice:,} for its nice value"] if nice else []
        return f"{self.priority:,}: {', '.join(parts) or 'no factor counts yet'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountShare:
    """Share and usage of an account, or of a user in one, relative to its siblings."""

    name: str
    promised: float
    used: float
    factor: float | None

    def __str__(self) -> str:
        text = (
            f"{self.name} has used {100 * self.used:.1f} % of its level's total, its fair share is "
        )
        text += f"{100 * self.promised:.1f} %"
        return text if self.factor is None else f"{text}; its factor is {self.factor:.3f} of 1"


def read_factors(commands: CommandRunner, job_id: str) -> Factors | None:
    """The factors of a job; None if sprio does not list it, for example because it is held."""
    form = "|".join(code for _, code in SPRIO)
    argv = ("sprio", "-h", "-j", job_id.partition("_")[0], "-o", f"%Y|{form}")
    try:
        lines = [line for line in commands.run(*argv).splitlines() if "|" in line]
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
    """Shares from the top account down to the user; empty if the cluster has no accounting."""
    try:
        rows = parse_table(commands.run("sshare", "-P", "-a", "-l"))
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
