"""Tokens: made once, shown once, kept as hashes, and checked in memory.

The rows in the store are the truth. The book is what a process remembers of them, never older than a
second: a revocation by another process is noticed within that time, one by this process at once.
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
"""A prefix that secret scanners can look for, the public id, and 32 random bytes."""

RENEW_AFTER_SECONDS: Final = 0.4
STALE_AFTER_SECONDS: Final = 0.9
"""The book is read again after the first, and not believed after the second."""

MISSED_AFTER_SECONDS: Final = 0.1
"""An unknown token makes the book read again, but no more often than this."""

USE_NOTED_AFTER_MS: Final = 60_000
"""A use is written down when the last one written is so old: not a write for every request."""

_NOBODY: Final = hashlib.sha256(b"nobody").hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequestTerms:
    """What a token is to be."""

    user: str
    role: Role
    tenant: str
    scopes: tuple[Permission, ...]
    created_by: str
    expires_at_ms: int | None = None


def mint(terms: TokenRequestTerms, now_ms: int) -> tuple[Token, str]:
    """A new token and its text. The text is given out once and cannot be had again."""
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


def admin_terms(user: str) -> TokenRequestTerms:
    """The first token of an installation: everything, everywhere, until it is revoked."""
    return TokenRequestTerms(
        user=user,
        role=Role.ADMIN,
        tenant=MEMBER_OF_ALL,
        scopes=tuple(Permission),
        created_by="bursar",
    )


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("ascii")).hexdigest()


def identity_of(token: Token) -> Identity:
    """Whoever shows the token."""
    return Identity(
        user=token.user,
        role=token.role,
        tenant=token.tenant,
        scopes=frozenset(token.scopes),
        token_id=token.id,
    )


class TokenCache:
    """All tokens in memory. Safe to use from any thread."""

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

    # -- keeping up ------------------------------------------------------------------------------

    @property
    def wants_renewal(self) -> bool:
        """Whether it is time to read the tokens again, at leisure."""
        return self._age() > RENEW_AFTER_SECONDS

    @property
    def is_stale(self) -> bool:
        """Whether nothing may be believed before the tokens are read again."""
        return self._age() > STALE_AFTER_SECONDS

    @property
    def may_have_missed(self) -> bool:
        """Whether a token that is not known could have been made elsewhere a moment ago."""
        return self._age() > MISSED_AFTER_SECONDS

    def _age(self) -> float:
        return float("inf") if self._read_at is None else self._monotonic() - self._read_at

    def renew(self) -> None:
        """Read all tokens. What this process changed and has not seen come back stays as it wrote it."""
        began = self._monotonic()
        rows = self._read()
        with self._lock:
            tokens = {row.id: row for row in rows}
            for token_id, own in list(self._own.items()):
                there = tokens.get(token_id)
                if there is not None and there.revoked_at_ms == own.revoked_at_ms:
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

    def note(self, token: Token) -> None:
        """This process makes or changes a token: from now on it is so here, whatever is read."""
        with self._lock:
            self._own[token.id] = token
            self._tokens[token.id] = token
            self._identities.pop(token.id, None)

    def forget(self, token: Token) -> None:
        """A new token could not be written: it was never there."""
        with self._lock:
            self._own.pop(token.id, None)
            self._tokens.pop(token.id, None)

    # -- looking up ------------------------------------------------------------------------------

    def all(self) -> tuple[Token, ...]:
        """Every token, newest first."""
        tokens = self._tokens.values()
        return tuple(sorted(tokens, key=lambda one: (-one.created_at_ms, one.id)))

    def get(self, token_id: str) -> Token | None:
        """The token of an id."""
        return self._tokens.get(token_id)

    def verify(self, text: str) -> Identity | None:
        """Whoever the text belongs to; None when it is nobody's, expired or revoked.

        An unknown id takes the same comparison as a known one with a wrong secret.
        """
        shape = SHAPE.fullmatch(text)
        if shape is None:
            return None
        token = self._tokens.get(shape[1])
        expected = token.secret_sha256 if token is not None else _NOBODY
        matches = hmac.compare_digest(_digest(shape[2]), expected)
        if token is None or not matches:
            return None
        now_ms = self._clock.now_ms()
        if token.revoked_at_ms is not None or _is_over(token, now_ms):
            return None
        self._used_ms[token.id] = now_ms
        found = self._identities.get(token.id)
        if found is None:
            found = self._identities[token.id] = identity_of(token)
        return found

    def holds(self, token_id: str) -> bool:
        """Whether a token that was shown before still counts."""
        token = self._tokens.get(token_id)
        if token is None or token.revoked_at_ms is not None:
            return False
        return not _is_over(token, self._clock.now_ms())

    # -- uses ------------------------------------------------------------------------------------

    def take_uses(self) -> tuple[Token, ...]:
        """Tokens whose last use should be written down now, as they are to be written."""
        with self._lock:
            used, self._used_ms = self._used_ms, {}
            due: list[Token] = []
            for token_id, at_ms in sorted(used.items()):
                token = self._tokens.get(token_id)
                if token is None or token.revoked_at_ms is not None:
                    continue
                last_ms = token.last_used_at_ms
                if last_ms is None or at_ms - last_ms >= USE_NOTED_AFTER_MS:
                    due.append(replace(token, last_used_at_ms=at_ms))
                    self._tokens[token_id] = due[-1]
            return tuple(due)


def _is_over(token: Token, now_ms: int) -> bool:
    return token.expires_at_ms is not None and now_ms >= token.expires_at_ms
