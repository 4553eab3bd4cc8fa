"""A cache of valid specs: jobs of a batch that differ only in name are checked once.

It holds for one state at one time: another fleet or quota needs a new one.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields
from operator import attrgetter

from bursar.core.admission.admission_request import AdmissionRequest
from bursar.core.admission.job_rules import job_id_is_free
from bursar.core.admission.problem import raise_problems
from bursar.core.admission.value_rules import are_valid_names
from bursar.model.jobs.job import JobSpec

NAME_FIELDS = ("name", "similarity_keys")
"""Fields that are checked for each job: no rule combines them with another field."""

_cache_key = attrgetter(*(one.name for one in fields(JobSpec) if one.name not in NAME_FIELDS))


class CheckedJobs:
    """Specs that passed admission. A job with dependencies is always checked in full."""

    __slots__ = ("_valid",)

    def __init__(self) -> None:
        self._valid: set[Hashable] = set()

    def has(self, request: AdmissionRequest) -> bool:
        """Whether an identical spec is valid; raises ``UserError`` if the job's id is taken."""
        spec = request.spec
        if spec.depends_on or not are_valid_names((spec.name, *spec.similarity_keys)):
            return False
        try:
            if _cache_key(spec) not in self._valid:
                return False
        except TypeError:  # An unhashable value has the wrong type: the full check reports it.
            return False
        raise_problems(f"job {spec.name[:60]!r}", job_id_is_free(request))
        return True

    def add(self, spec: JobSpec) -> None:
        self._valid.add(_cache_key(spec))
