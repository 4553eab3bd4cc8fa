"""Jobs that come in together are often alike in all but their names: those are checked once.

What is remembered holds for one state at one moment, so a fleet or a quota that changes is looked at anew.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields
from operator import attrgetter

from bursar.core.admission.admission_request import AdmissionRequest
from bursar.core.admission.job_rules import the_id_is_free
from bursar.core.admission.problem import refuse_if_any
from bursar.core.admission.value_rules import are_valid_names
from bursar.model.jobs.job import JobSpec

ITS_OWN = ("name", "similarity_keys")
"""What tells jobs apart and leads to no problem but with itself."""

_asked_of = attrgetter(*(one.name for one in fields(JobSpec) if one.name not in ITS_OWN))


class CheckedJobs:
    """What was found in order so far. A job that depends on others is always checked in full."""

    __slots__ = ("_in_order",)

    def __init__(self) -> None:
        self._in_order: set[Hashable] = set()

    def has(self, arrival: AdmissionRequest) -> bool:
        """Whether a job is like one that was found in order; its own name and id must be so too."""
        spec = arrival.spec
        if spec.depends_on or not are_valid_names((spec.name, *spec.similarity_keys)):
            return False
        try:
            if _asked_of(spec) not in self._in_order:
                return False
        except (
            TypeError
        ):  # What cannot be hashed is not of the type it should be: the walk says so.
            return False
        refuse_if_any(f"job {spec.name[:60]!r}", the_id_is_free(arrival))
        return True

    def add(self, spec: JobSpec) -> None:
        """It was found in order."""
        self._in_order.add(_asked_of(spec))
