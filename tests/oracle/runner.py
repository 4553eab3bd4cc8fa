"""Runs published cases through our core and compares the outcome.

A family is answered by one function in an ``answer_*.py`` module next to this file:
``FAMILIES = {"available_quota": answer}`` where ``answer(case, fixtures)`` returns ``None`` when our
core gives the published outcome and otherwise a short text saying what differs. Answers never look at
a case's id: any file of the same schema must run as well as the one these were written against.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

Case = dict[str, Any]
Answer = Callable[[Case, dict[str, Any]], str | None]

UNREAD: list[str] = []
"""Parts of the case being answered that no answer reads; a difference names them."""

HERE = Path(__file__).parent
OWN_CASES = HERE / "own_cases.yaml"
PUBLISHED_CASES = Path(
    os.environ.get("BURSAR_ORACLE", HERE.parents[2] / "shared" / "oracle" / "cases.yaml")
)


def difference_in(case: Case, fixtures: dict[str, Any]) -> str | None:
    """What our core decides differently, and which keys of the case it did not read; None when it agrees."""
    UNREAD.clear()
    difference = families()[case["family"]](case, fixtures)
    return None if difference is None else "; ".join((difference, *UNREAD))


@cache
def families() -> dict[str, Answer]:
    """Every family our core answers, gathered from the ``answer_*`` modules."""
    found: dict[str, Answer] = {}
    for module in sorted(pkgutil.iter_modules([str(HERE)]), key=lambda item: item.name):
        if module.name.startswith("answer_"):
            found |= importlib.import_module(f"tests.oracle.{module.name}").FAMILIES
    return found


@cache
def read_cases(path: Path) -> tuple[list[Case], dict[str, Any]]:
    """The cases of a file that we answer, with the fixtures they refer to."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    document = yaml.load(path.read_text(), Loader=loader)
    cases = [case for case in document["cases"] if case["family"] in families()]
    return cases, document.get("fixtures", {})
