"""What other schedulers publish about their own behaviour, and our core's answer to it.

The published cases are outside the project; without them only our own cases run. A case we
answer differently on purpose is listed in ``differences.yaml`` with the decision that explains it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.oracle.runner import (
    HERE,
    OWN_CASES,
    PUBLISHED_CASES,
    Case,
    difference_in,
    families,
    read_cases,
)

REQUIRED_FAMILIES = (
    "afs_cycles",
    "afs_decay",
    "afs_queue_head",
    "afs_usage_score",
    "available_quota",
    "backfill",
    "borrowing_on",
    "classic_fairshare",
    "dominant_resource_share",
    "fair_tree",
    "partial_admission_search",
    "preemption_classical",
    "preemption_fair",
    "preemption_hierarchical",
    "preemption_policy",
    "tas_node_replacement",
    "tas_placement",
)


@cache
def differences() -> dict[str, str]:
    """The cases we answer differently on purpose, and the page that explains it."""
    listed: dict[str, str] = yaml.safe_load((HERE / "differences.yaml").read_text())
    return listed


def cases_of(path: Path) -> list[Any]:
    """One parameter set per case of a file; of an absent file, one that is skipped with a reason."""
    if not path.exists():
        reason = f"no cases at {path}; set BURSAR_ORACLE to where they are"
        return [pytest.param(None, {}, id="absent", marks=pytest.mark.skip(reason=reason))]
    cases, fixtures = read_cases(path)
    return [pytest.param(case, fixtures, id=case["id"], marks=_marks(case["id"])) for case in cases]


def _marks(case_id: str) -> list[pytest.MarkDecorator]:
    page = differences().get(case_id)
    return [pytest.mark.xfail(strict=True, reason=f"on purpose: {page}")] if page else []


@pytest.mark.parametrize(("case", "fixtures"), cases_of(PUBLISHED_CASES))
def test_a_published_case_comes_out_as_published(case: Case, fixtures: dict[str, Any]) -> None:
    difference = difference_in(case, fixtures)
    assert difference is None, difference


@pytest.mark.parametrize(("case", "fixtures"), cases_of(OWN_CASES))
def test_a_case_of_our_own_comes_out_as_worked_out(case: Case, fixtures: dict[str, Any]) -> None:
    difference = difference_in(case, fixtures)
    assert difference is None, difference


@pytest.mark.parametrize("family", REQUIRED_FAMILIES)
def test_the_family_has_an_answer_and_a_case_of_our_own(family: str) -> None:
    assert family in families()
    assert family in {case["family"] for case in read_cases(OWN_CASES)[0]}


def test_every_own_case_belongs_to_a_family_we_answer() -> None:
    written = yaml.safe_load(OWN_CASES.read_text())["cases"]
    assert len(read_cases(OWN_CASES)[0]) == len(written)
    assert len({case["id"] for case in written}) == len(written)


def test_every_difference_on_purpose_names_its_decision() -> None:
    missing = {
        case_id: page
        for case_id, page in differences().items()
        if not (HERE.parents[1] / page).is_file()
    }
    assert not missing


@pytest.mark.parametrize(
    ("family", "spoil"),
    [
        ("afs_cycles", {"admitted": []}),
        ("afs_decay", {"after_half_lives": {1: {"gpu": 3}}}),
        ("afs_queue_head", {"head": "absent"}),
        ("afs_usage_score", {"usage": -1}),
        ("backfill", {"running": [2]}),
        ("backfill", {"running": [1], "colour": "blue"}),
        ("classic_fairshare", {"users": [{"account": "red", "user": "greedy", "fairshare": 1}]}),
        ("fair_tree", {"users": [{"account": "red", "user": "r2", "fairshare": 0.5}]}),
    ],
)
def test_an_answer_notices_a_wrong_outcome(family: str, spoil: dict[str, Any]) -> None:
    """An adapter that compares nothing would agree with everything."""
    cases, fixtures = read_cases(OWN_CASES)
    case = next(case for case in cases if case["family"] == family)
    assert families()[family]({**case, "expect": spoil}, fixtures) is not None


def test_a_difference_names_the_part_of_the_case_that_was_not_read() -> None:
    cases, fixtures = read_cases(OWN_CASES)
    case = next(one for one in cases if one["family"] == "borrowing_on")
    twisted = {
        **case,
        "input": {**case["input"], "novelty": 1},
        "expect": {key: not value for key, value in case["expect"].items()},
    }
    difference = difference_in(twisted, fixtures)
    assert difference is not None
    assert "input has 'novelty', which we do not read" in difference
