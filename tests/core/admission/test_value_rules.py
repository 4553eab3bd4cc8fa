"""Every value of a job is checked."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from bursar.core.admission.value_rules import value_problems
from bursar.model.jobs.job import (
    CheckpointPolicy,
    Constraints,
    JobSpec,
    MigSlice,
    MpsShare,
    SliceLayer,
    Slo,
    Spread,
    TaskGroup,
    Toleration,
    Topology,
    WholeGpus,
)

FULL = JobSpec(
    name="train",
    queue="research",
    groups=(
        TaskGroup(name="a", count=2, min_count=1, gpu=WholeGpus(count=1, models=("a100-80gb",))),
        TaskGroup(name="b", gpu=MigSlice(profile="1g.10gb")),
        TaskGroup(name="c", gpu=MpsShare(percent=25, memory_mib=1)),
        TaskGroup(name="d"),
    ),
    expected_run_ms=1,
    max_run_ms=2,
    deadline_ms=3,
    slo=Slo(gpu_ms=1, within_ms=1),
    constraints=Constraints(
        node_labels=(("a", "b"),),
        tolerations=(Toleration(key="a"),),
        topology=Topology(required="rack", layers=(SliceLayer(level="rack", size=4),)),
        spread=Spread(),
        apart="x",
    ),
    checkpoint=CheckpointPolicy(interval_ms=1),
    depends_on=("j-1",),
)
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**53, 2**53 + 1, 1.0, float("nan"), float("inf")),
    *("", " ", "x", "a\nb", "x" * 5_000, "\u200b", (), ("x",), (1,), [], {}, {"a": "b"}),
    *((("a",),), (("a", "b", "c"),), WholeGpus(count=0), TaskGroup(count=0), object()),
)


def bent(value: Any) -> list[Any]:
    """Copies of the value in which one part is replaced by an invalid one."""
    found: list[Any] = []
    for field in fields(value):
        inside = getattr(value, field.name)
        found += [replace(value, **{field.name: odd}) for odd in ODD]
        if is_dataclass(inside):
            found += [replace(value, **{field.name: one}) for one in bent(inside)]
        if isinstance(inside, tuple):
            for index, member in enumerate(inside):
                if is_dataclass(member):
                    for one in bent(member):
                        parts = (*inside[:index], one, *inside[index + 1 :])
                        found.append(replace(value, **{field.name: parts}))
    return found


def test_a_valid_job_with_every_option_has_no_problems() -> None:
    assert list(value_problems(FULL)) == []


def test_every_problem_names_a_field_of_the_job_and_a_fix() -> None:
    bends = bent(FULL)
    assert len(bends) > 1_000
    problems = [problem for one in bends for problem in value_problems(one)]
    assert len(problems) > 1_000
    names = {field.name for field in fields(JobSpec)}
    assert all(re.split(r"[.\[ ]", one.field)[0] in names and one.fix for one in problems)


@pytest.mark.parametrize(
    ("job", "field", "code"),
    [
        (replace(FULL, retries=True), "retries", "wrong-type"),
        (replace(FULL, retries=2.0), "retries", "wrong-type"),
        (replace(FULL, retries=-1), "retries", "out-of-range"),
        (replace(FULL, name=" "), "name", "empty-text"),
        (replace(FULL, depends_on=("a\nb",)), "depends_on[0]", "unprintable-text"),
        (replace(FULL, groups=(TaskGroup(gpu=WholeGpus(count=0)),)), "groups[0].gpu.count", ""),
        (replace(FULL, groups=(TaskGroup(gpu=TaskGroup()),)), "groups[0].gpu", "wrong-type"),
    ],
)
def test_the_path_leads_to_the_value(job: JobSpec, field: str, code: str) -> None:
    (problem,) = value_problems(job)
    assert problem.field == field
    assert problem.code == (code or "out-of-range")


@pytest.mark.parametrize("value", [3, "x", None, object()])
def test_a_value_that_is_not_a_dataclass_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        list(value_problems(value))
