"""Ids of submitted jobs, idempotency keys, and what is returned to callers."""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass

from bursar.governance.finding import Finding
from bursar.model.errors import UserError

ID_LETTERS = 10
ID_BYTES = 7
"""Base32 writes 5 bits a letter: 7 bytes are enough for 10 letters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyKey:
    """A caller's key for a request: sending it twice has the effect of once."""

    tenant: str
    key: str
    request_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """Ids of the submitted jobs: one for each job or array member."""

    job_ids: tuple[str, ...]
    replayed: bool = False
    findings: tuple[Finding, ...] = ()
    """Warnings of governance rules that did not reject the job."""


class NotLeader(Exception):
    """Another process leads and must take this write."""

    def __init__(self, leader_address: str | None) -> None:
        super().__init__(f"the leader is {leader_address or 'not known yet'}")
        self.leader_address = leader_address


def new_job_id() -> str:
    """A random id, so that ids of other tenants cannot be guessed or counted."""
    letters = base64.b32encode(secrets.token_bytes(ID_BYTES)).decode("ascii")
    return f"j-{letters[:ID_LETTERS].lower()}"


def idempotency_key_reused(key: str) -> UserError:
    """The error for a key that was used for another request."""
    return UserError(
        f"the idempotency key {key[:80]!r} was used for a different request.",
        fix="Send the same request again, or choose a new key.",
        code="idempotency-key-reused",
    )
