"""Tokens: shown once, stored as hashes, verified in memory.

The cache of the store's rows is never older than a second: a revocation by another process takes effect
within that time, one by this process at once.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bursar.model.tenants.identity import MEMBER_OF_ALL, Identity, Permission, Role, Token
from bursar.ports import Clock

PREFIX: Final = "bur"
SECRET_BYTES: Final = 32
SHAPE: Final = re.compile(r"bur_([a-z2-7]{8,32})_([A-Za-z0-9_-]{43})")
"""A prefix for secret scanners, the public id, and 32 random bytes."""

REFRESH_AFTER_SECONDS: Final = 0.4
STALE_AFTER_SECONDS: Final = 0.9
"""The cache is refreshed in the background after the first, and not used after the second."""

MISS_REFRESH_SECONDS: Final = 0.1
"""An unknown token refreshes the cache, but no more often than this."""

USE_WRITE_INTERVAL_MS: Final = 60_000
"""The last use of a token is written at most this often, not with every request."""

_NO_TOKEN_SHA256: Final = hashlib.sha256(b"no token").hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSpec:
    """Fields of a token to create."""

    user: str
    role: Role
    tenant: str
    scopes: tuple[Permission, ...]
    created_by: str
    expires_at_ms: int | None = None


def new_token(terms: TokenSpec, now_ms: int) -> tuple[Token, str]:
    """A new token and its text. The text is not stored and cannot be shown again."""
    token_id = base64.b32encode(secrets.token_bytes(10)).decode("ascii").lower().rstrip("=")
    secret = base64.urlsafe_b64encode(secrets.token_bytes(SECRET_BYTES)).decode("ascii").rstrip("=")
    token = Token(
        id=token_id,
        secret_sha256=_digest(secret),
        user=terms.user,
        role=terms.role,
        tenant=terms.tenant,
        scopes=terms.scopes,
        created_at_ms=now_ms,
        created_by=terms.created_by,
        expires_at_ms=terms.expires_at_ms,
    )
    return token, f"{PREFIX}_{token_id}_{secret}"


def admin_token_spec(user: str) -> TokenSpec:
    """The first token of an installation: all permissions at all tenants, no expiry."""
    return TokenSpec(
        user=user,
        role=Role.ADMIN,
        tenant=MEMBER_OF_ALL,
        scopes=tuple(Permission),
        created_by="bursar",
    )


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("ascii")).hexdigest()


def identity_of(token: Token) -> Identity:
    return Identity(
        user=token.user,
        role=token.role,
        tenant=token.tenant,
        scopes=frozenset(token.scopes),
        token_id=token.id,
    )


class TokenCache:
    """All tokens in memory. Thread-safe."""

    def __init__(
        self,
        read: Callable[[], Sequence[Token]],
        clock: Clock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._clock = clock
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._tokens: dict[str, Token] = {}
        self._identities: dict[str, Identity] = {}
        self._own: dict[str, Token] = {}
        self._used_ms: dict[str, int] = {}
        self._read_at: float | None = None

    # -- refreshing ------------------------------------------------------------------------------

    @property
    def should_refresh(self) -> bool:
        """Whether a refresh in the background is due."""
        return self._age_seconds() > REFRESH_AFTER_SECONDS

    @property
    def is_stale(self) -> bool:
        """Whether the cache must be refreshed before use."""
        return self._age_seconds() > STALE_AFTER_SECONDS

    @property
    def may_miss_new_tokens(self) -> bool:
        """Whether another process may have created tokens since the last refresh."""
        return self._age_seconds() > MISS_REFRESH_SECONDS

    def _age_seconds(self) -> float:
        return float("inf") if self._read_at is None else self._monotonic() - self._read_at

    def refresh(self) -> None:
        """Read all tokens. This process's own unconfirmed changes override what is read."""
        began = self._monotonic()
        rows = self._read()
        with self._lock:
            tokens = {row.id: row for row in rows}
            for token_id, own in list(self._own.items()):
                stored = tokens.get(token_id)
                if stored is not None and stored.revoked_at_ms == own.revoked_at_ms:
                    del self._own[token_id]
                else:
                    tokens[token_id] = own
            self._tokens = tokens
            known = self._identities
            self._identities = {
                token_id: known[token_id]
                for token_id, token in tokens.items()
                if token_id in known and known[token_id] == identity_of(token)
            }
            self._read_at = began

    def put(self, token: Token) -> None:
        """Record a token that this process created or changed, ahead of the store."""
        with self._lock:
            self._own[token.id] = token
            self._tokens[token.id] = token
            self._identities.pop(token.id, None)

    # -- lookup ----------------------------------------------------------------------------------

    def all(self) -> tuple[Token, ...]:
        """Every token, newest first."""
        tokens = self._tokens.values()
        return tuple(sorted(tokens, key=lambda one: (-one.created_at_ms, one.id)))

    def get(self, token_id: str) -> Token | None:
        return self._tokens.get(token_id)

    def verify(self, text: str) -> Identity | None:
        """The identity of a token's text; None if unknown, expired or revoked.

        An unknown id takes the same comparison as a known one with a wrong secret.
        """
        shape = SHAPE.fullmatch(text)
        if shape is None:
            return None
        token = self._tokens.get(shape[1])
        expected = token.secret_sha256 if token is not None else _NO_TOKEN_SHA256
        matches = hmac.compare_digest(_digest(shape[2]), expected)
        if token is None or not matches:
            return None
        now_ms = self._clock.now_ms()
        if token.revoked_at_ms is not None or _is_expired(token, now_ms):
            return None
        self._used_ms[token.id] = now_ms
        identity = self._identities.get(token.id)
        if identity is None:
            identity = self._identities[token.id] = identity_of(token)
        return identity

    def is_valid(self, token_id: str) -> bool:
        """Whether a token that was verified before is still valid."""
        token = self._tokens.get(token_id)
        if token is None or token.revoked_at_ms is not None:
            return False
        return not _is_expired(token, self._clock.now_ms())

    # -- last use --------------------------------------------------------------------------------

    def take_uses(self) -> tuple[Token, ...]:
        """Tokens whose last use should be written to the store now."""
        with self._lock:
            used, self._used_ms = self._used_ms, {}
            due: list[Token] = []
            for token_id, at_ms in sorted(used.items()):
                token = self._tokens.get(token_id)
                if token is None or token.revoked_at_ms is not None:
                    continue
                last_ms = token.last_used_at_ms
                if last_ms is None or at_ms - last_ms >= USE_WRITE_INTERVAL_MS:
                    due.append(replace(token, last_used_at_ms=at_ms))
                    self._tokens[token_id] = due[-1]
            return tuple(due)


def _is_expired(token: Token, now_ms: int) -> bool:
    return token.expires_at_ms is not None and now_ms >= token.expires_at_ms
