"""Of similar jobs in a batch one is checked fully; differing values are checked for each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bursar.core.admission import admit
from bursar.core.admission.admission_request import AdmissionRequest
from bursar.core.admission.admit import CheckedJobs, submissions
from bursar.core.state.fleet_state import FleetState
from bursar.model.errors import UserError
from bursar.model.jobs.job import JobSpec
from tests.support import fleet_of, job, pool, state_of


@pytest.fixture
def state() -> FleetState:
    return state_of(fleet_of(pool("a100", 2)))


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the jobs that were checked in full."""
    found: list[str] = []
    in_full = admit.check_job

    def check(arrival: AdmissionRequest) -> None:
        found.append(arrival.job_id)
        in_full(arrival)

    monkeypatch.setattr(admit, "check_job", check)
    return found


def arrival(state: FleetState, job_id: str, spec: JobSpec) -> AdmissionRequest:
    return AdmissionRequest(
        spec=spec, job_id=job_id, at_ms=5, state=state, known_models=("a100-80gb",)
    )


def test_jobs_that_differ_only_in_name_are_checked_once(
    state: FleetState, checked: list[str]
) -> None:
    others = CheckedJobs()
    specs = [
        replace(job(f"n{number}", gpus=2), similarity_keys=("q", f"n{number}"))
        for number in range(5)
    ]
    for number, spec in enumerate(specs):
        made = submissions(arrival(state, f"j-{number}", spec), others)
        assert made == submissions(arrival(state, f"j-{number}", spec))
    assert [one for one in checked if checked.count(one) == 2] == ["j-0", "j-0"]


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"name": ""}, "empty-text"),
        ({"name": "a\nb"}, "unprintable-text"),
        ({"similarity_keys": ("x" * 300,)}, "text-too-long"),
        ({"queue": "nowhere"}, "unknown-queue"),
        ({"groups": job("x", gpus=9).groups}, "no-pool-fits"),
        ({"groups": job("x", gpus=8, tasks=3).groups}, "gang-too-large"),
        ({"deadline_ms": 4}, "deadline-past"),
        ({"depends_on": ("j-none",)}, "unknown-dependency"),
        ({"priority_class": ["high"]}, "wrong-type"),
    ],
)
def test_problems_of_differing_values_are_found(
    state: FleetState, changed: dict[str, object], code: str
) -> None:
    others = CheckedJobs()
    submissions(arrival(state, "j-0", job("fine", gpus=2)), others)
    spec = replace(job("fine", gpus=2), **changed)  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(UserError) as refused:
            submissions(arrival(state, "j-1", spec), others)
        assert refused.value.code == code


def test_a_used_id_is_found(state: FleetState) -> None:
    others = CheckedJobs()
    (made,) = submissions(arrival(state, "j-0", job("fine")), others)
    state.apply(made)
    with pytest.raises(UserError) as refused:
        submissions(arrival(state, "j-0", job("fine")), others)
    assert refused.value.code == "job-id-taken"


def test_a_job_with_dependencies_is_always_checked(state: FleetState, checked: list[str]) -> None:
    others = CheckedJobs()
    (first,) = submissions(arrival(state, "j-0", job("first")), others)
    state.apply(first)
    for number in (1, 2):
        spec = replace(job("after"), depends_on=("j-0",))
        submissions(arrival(state, f"j-{number}", spec), others)
    assert checked == ["j-0", "j-1", "j-2"]
