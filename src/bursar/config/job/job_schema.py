"""JSON Schemas of the files users write, for editors and for other programs.

They are made of the tables that the readers use, so a key is in both or in neither.
"""

from __future__ import annotations

from typing import Any

from bursar.config.fleet.fleet_schema import fleet_schema
from bursar.config.job.job_keys import JOB, as_schema

__all__ = ["fleet_schema", "job_schema"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def job_schema() -> dict[str, Any]:
    """The schema of a job file."""
    return {
        "$schema": DIALECT,
        "title": "Bursar job",
        "description": "A job: what to run, what each task needs, and where it may wait and run.",
        **as_schema(JOB),
        "required": ["run"],
    }
