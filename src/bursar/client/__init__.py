"""The Python client of the HTTP API, with the standard library only."""

from __future__ import annotations

from bursar.api import wire
from bursar.client.client import Client
from bursar.client.job import Job

__all__ = ["Client", "Job", "submit", "wire"]


def submit(what: object, /, *args: object, **kwargs: object) -> Job:
    """``Client().submit(...)`` with the server and the token of the environment."""
    return Client().submit(what, *args, **kwargs)  # type: ignore[arg-type]
