"""A misspelt name gets a suggestion."""

from __future__ import annotations

import pytest

from bursar.model.suggestion import did_you_mean, suggest_among

KNOWN = ("fifo", "sjf", "fair-tree", "fair-share")


@pytest.mark.parametrize(
    ("name", "most", "question"),
    [
        ("fiof", 1, "Did you mean 'fifo'?"),
        ("fair-tre", 2, "Did you mean 'fair-tree' or 'fair-share'?"),
        ("entirely different", 3, ""),
    ],
)
def test_similar_names_are_suggested(name: str, most: int, question: str) -> None:
    assert did_you_mean(name, KNOWN, most) == question


def test_all_names_are_listed_with_or_without_a_suggestion() -> None:
    everything = "There are: fifo, sjf, fair-tree, fair-share."
    assert suggest_among("fiof", KNOWN) == f"Did you mean 'fifo'? {everything}"
    assert suggest_among("x", KNOWN) == everything
