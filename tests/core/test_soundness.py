"""The quick look and the careful one agree on what is in order."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from bursar.core.admission.soundness import is_sound
from bursar.core.admission.values import value_problems
from bursar.model.job import (
    Checkpoint,
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
    checkpoint=Checkpoint(interval_ms=1),
    depends_on=("j-1",),
)
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**53, 2**53 + 1, 1.0, float("nan"), float("inf")),
    *("", " ", "x", "a\nb", "x" * 5_000, "\u200b", (), ("x",), (1,), [], {}, {"a": "b"}),
    *((("a",),), (("a", "b", "c"),), WholeGpus(count=0), TaskGroup(count=0), object()),
)


def bent(value: Any) -> list[Any]:
    """The value with one thing in it replaced by something odd, in every way."""
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


def test_a_job_with_everything_in_order_is_sound() -> None:
    assert is_sound(FULL)
    assert list(value_problems(FULL)) == []


def test_what_is_sound_has_no_problems_and_what_has_none_is_sound() -> None:
    bends = bent(FULL)
    assert len(bends) > 1_000
    differ = [one for one in bends if is_sound(one) is bool(list(value_problems(one)))]
    assert differ == []


@pytest.mark.parametrize("value", [3, "x", None, object()])
def test_what_is_no_spec_is_not_asked_about(value: object) -> None:
    with pytest.raises(TypeError):
        is_sound(value)
