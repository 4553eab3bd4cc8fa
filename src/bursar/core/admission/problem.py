"""One thing a user can put right, and the error that says all of them at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bursar.model.errors import UserError
from bursar.model.suggestion import did_you_mean

SHOWN = 8
"""So many problems are listed; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """``text`` goes on from the field's name: "is -1"; ``fix`` is a sentence of its own."""

    code: str
    field: str
    text: str
    fix: str

    def __str__(self) -> str:
        return f"{self.field} {self.text}."


def refuse_if_any(subject: str, problems: Iterable[Problem]) -> None:
    """Raise one ``UserError`` for all problems; its code is that of the first."""
    found = list(problems)
    if not found:
        return
    first = found[0]
    if len(found) == 1:
        raise UserError(f"{subject}: {first}", fix=first.fix, code=first.code)
    lines = [f"\n- {problem} {problem.fix}" for problem in found[:SHOWN]]
    if len(found) > SHOWN:
        lines.append(f"\n- and {len(found) - SHOWN} more.")
    raise UserError(
        f"{subject}: {len(found)} things are wrong:{''.join(lines)}\n",
        fix="Put these right and try again.",
        code=first.code,
    )


def suggest(wrong: str, known: Iterable[str], what: str) -> str:
    """ "Did you mean ...?" when something is close, else what there is."""
    names = sorted(set(known))
    if close := did_you_mean(wrong, names, 2):
        return close
    if not names:
        return f"There is no {what} yet: declare one first."
    return f"Write one of {listed(names)}."


def listed(names: Iterable[str], most: int = 12) -> str:
    """Names in a row; of a long list the first few and how many more."""
    known = list(names)
    rest = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + rest


def repeated(names: Iterable[str]) -> list[str]:
    """The names that occur twice or more, sorted."""
    seen: set[str] = set()
    twice: set[str] = set()
    for name in names:
        (twice if name in seen else seen).add(name)
    return sorted(twice)
