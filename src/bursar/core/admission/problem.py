"""A problem that a user can fix, and the error that lists all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bursar.model.errors import UserError
from bursar.model.suggestion import did_you_mean

SHOWN = 8
"""How many problems an error lists; the others are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """``text`` continues the field's name ("is -1"); ``fix`` is a full sentence."""

    code: str
    field: str
    text: str
    fix: str

    def __str__(self) -> str:
        return f"{self.field} {self.text}."


def raise_problems(subject: str, problems: Iterable[Problem]) -> None:
    """Raises one ``UserError`` for all problems, with the code of the first."""
    found = list(problems)
    if not found:
        return
    first, where = found[0], f"{subject}: " if subject else ""
    if len(found) == 1:
        raise UserError(f"{where}{first}", fix=first.fix, code=first.code)
    raise UserError(
        f"{where}{len(found)} problems:{itemized(found)}",
        fix="Fix these and try again.",
        code=first.code,
    )


def itemized(problems: Sequence[Problem]) -> str:
    """Problems with their fixes, one to a line; of many, the first few."""
    lines = [f"\n- {problem} {problem.fix}" for problem in problems[:SHOWN]]
    if len(problems) > SHOWN:
        lines.append(f"\n- and {len(problems) - SHOWN} more.")
    return f"{''.join(lines)}\n"


def suggest(wrong: str, known: Iterable[str], what: str) -> str:
    """ "Did you mean ...?" if a known name is close, else the known names."""
    names = sorted(set(known))
    if close := did_you_mean(wrong, names, 2):
        return close
    if not names:
        return f"There is no {what} yet: declare one first."
    return f"Write one of {listed(names)}."


def listed(names: Iterable[str], most: int = 12) -> str:
    """Names separated by commas; a long list is cut and the rest counted."""
    known = list(names)
    rest = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + rest


def repeated(names: Iterable[str]) -> list[str]:
    """The names that occur twice or more, sorted."""
    return sorted(name for name, times in Counter(names).items() if times > 1)
