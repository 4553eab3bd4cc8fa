"""What callers hand in, and what they get back."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from bursar.governance.finding import Finding
from bursar.model.errors import UserError
from bursar.model.jobs.job import JobSpec
from bursar.model.jobs.run_spec import RunSpec

ID_LETTERS = 10
ID_BYTES = 7
"""Base32 writes 5 bits a letter: 7 bytes are enough for 10 letters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One job as its user wrote it."""

    spec: JobSpec
    recipe: RunSpec
    labels: Mapping[str, str] = field(default_factory=dict)
    document: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyKey:
    """A caller's own name for a request, so that sending it twice is the same as once."""

    tenant: str
    key: str
    request_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The ids of what was taken: one for each job, or for each member of an array."""

    job_ids: tuple[str, ...]
    replayed: bool = False
    findings: tuple[Finding, ...] = ()
    """What the house rules had to say, and did not forbid."""


class NotLeader(Exception):
    """Another process has the lead: it takes what changes something."""

    def __init__(self, leader_address: str | None) -> None:
        super().__init__(f"the lead is with {leader_address or 'nobody yet'}")
        self.leader_address = leader_address


def new_job_id() -> str:
    """Random, so that ids of other tenants cannot be guessed or counted."""
    letters = base64.b32encode(secrets.token_bytes(ID_BYTES)).decode("ascii")
    return f"j-{letters[:ID_LETTERS].lower()}"


def key_used_otherwise(key: str) -> UserError:
    """The same key came with another request."""
    return UserError(
        f"the idempotency key {key[:80]!r} was used for a different request.",
        fix="Send the same request again, or choose a new key.",
        code="idempotency-key-reused",
    )
