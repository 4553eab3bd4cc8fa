"""Runs beside each other."""

from bursar.simulate.measures.summary import Summary
from collections.abc import Sequence


def compare_table(s: Sequence[Summary]) -> str:
    return ""


def compare_json(s: Sequence[Summary]) -> dict[str, int]:
    return {}
