"""Identities, roles and tokens. Rights at a tenant include its descendants."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """A user's role at a tenant, from the fewest rights to the most."""

    VIEWER = "viewer"
    MEMBER = "member"
    LEAD = "lead"
    ADMIN = "admin"


class Permission(StrEnum):
    """What a route needs. A token's scopes are a set of these; a role allows a set of these."""

    READ_JOBS = "jobs:read"
    WRITE_JOBS = "jobs:write"
    READ_FLEET = "fleet:read"
    WRITE_FLEET = "fleet:write"
    READ_TENANTS = "tenants:read"
    WRITE_TENANTS = "tenants:write"
    WRITE_TOKENS = "tokens:write"
    OPERATE = "operate"
    """See the health of the installation, rebuild, drain nodes."""


MEMBER_OF_ALL = ""
"""The tenant of those whose rights reach the whole installation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """An authenticated user: name, role, and the tenant whose subtree the token covers."""

    user: str
    role: Role
    tenant: str
    scopes: frozenset[Permission]
    token_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A stored token. The secret is shown once; only its hash is stored."""

    id: str
    secret_sha256: str
    user: str
    role: Role
    tenant: str
    scopes: tuple[Permission, ...]
    created_at_ms: int
    created_by: str
    expires_at_ms: int | None = None
    revoked_at_ms: int | None = None
    last_used_at_ms: int | None = None
