"""The token cache: verification, expiry, revocation, refresh."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from bursar.control.access.token_cache import (
    STALE_AFTER_SECONDS,
    USE_WRITE_INTERVAL_MS,
    TokenCache,
    TokenSpec,
    admin_token_spec,
    new_token,
)
from bursar.model.tenants.identity import Permission, Role, Token

SPEC = TokenSpec(
    user="ann",
    role=Role.MEMBER,
    tenant="team-a",
    scopes=(Permission.READ_JOBS,),
    created_by="root",
    expires_at_ms=10_000,
)


@dataclass
class TokenStore:
    """Stored tokens, and two clocks that the test sets."""

    rows: dict[str, Token] = field(default_factory=dict)
    ms: int = 1_000
    seconds: float = 0.0

    def now_ms(self) -> int:
        return self.ms

    def cache(self) -> TokenCache:
        cache = TokenCache(lambda: list(self.rows.values()), self, lambda: self.seconds)
        cache.refresh()
        return cache

    def add(self, spec: TokenSpec = SPEC) -> tuple[Token, str]:
        token, text = new_token(spec, self.ms)
        self.rows[token.id] = token
        return token, text


def test_a_token_is_random_and_stored_as_a_hash() -> None:
    store = TokenStore()
    token, text = store.add()
    other, _ = store.add()
    prefix, token_id, secret = text.split("_", 2)
    assert (prefix, token_id) == ("bur", token.id)
    assert len(secret) == 43
    assert secret not in repr(token)
    assert token.secret_sha256 != other.secret_sha256 and token.id != other.id


def test_a_valid_token_has_an_identity() -> None:
    store = TokenStore()
    token, text = store.add()
    identity = store.cache().verify(text)
    assert identity is not None
    assert (identity.user, identity.role, identity.tenant) == ("ann", Role.MEMBER, "team-a")
    assert identity.scopes == {Permission.READ_JOBS} and identity.token_id == token.id


def test_the_admin_token_has_all_permissions() -> None:
    store = TokenStore()
    _, text = store.add(admin_token_spec("root"))
    identity = store.cache().verify(text)
    assert identity is not None and identity.scopes == frozenset(Permission)


@pytest.mark.parametrize(
    "corrupt",
    [
        lambda text: text[:-1],
        lambda text: text[:-1] + ("A" if text[-1] != "A" else "B"),
        lambda text: text.upper(),
        lambda text: text + "x",
        lambda text: " " + text,
        lambda text: text.replace("bur_", ""),
        lambda text: text[:-43] + "A" * 43,
        lambda text: "bur_" + "a" * 16 + "_" + text[-43:],
        lambda text: text[:0],
        lambda text: text[:4] + "_",
        lambda text: text + "\n",
        lambda text: "é" * len(text),
    ],
)
def test_a_corrupt_token_is_rejected(corrupt: object) -> None:
    store = TokenStore()
    _, text = store.add()
    assert store.cache().verify(corrupt(text)) is None  # type: ignore[operator]


def test_an_expired_token_is_rejected() -> None:
    store = TokenStore()
    token, text = store.add()
    cache = store.cache()
    store.ms = 9_999
    assert cache.verify(text) is not None and cache.is_valid(token.id)
    store.ms = 10_000
    assert cache.verify(text) is None and not cache.is_valid(token.id)


def test_a_local_revocation_applies_at_once_and_survives_a_refresh() -> None:
    store = TokenStore()
    token, text = store.add()
    cache = store.cache()
    cache.put(replace(token, revoked_at_ms=store.ms))
    assert cache.verify(text) is None
    cache.refresh()
    assert cache.verify(text) is None


def test_a_revocation_by_another_process_applies_after_a_refresh() -> None:
    store = TokenStore()
    token, text = store.add()
    cache = store.cache()
    store.rows[token.id] = replace(token, revoked_at_ms=store.ms)
    cache.refresh()
    assert cache.verify(text) is None


def test_a_changed_role_applies_after_a_refresh() -> None:
    store = TokenStore()
    token, text = store.add()
    cache = store.cache()
    assert cache.verify(text) is not None
    store.rows[token.id] = replace(token, role=Role.VIEWER)
    cache.refresh()
    identity = cache.verify(text)
    assert identity is not None and identity.role is Role.VIEWER


def test_cached_tokens_are_stale_in_under_a_second() -> None:
    store = TokenStore()
    cache = store.cache()
    assert not cache.is_stale and not cache.should_refresh
    store.seconds = 0.5
    assert cache.should_refresh and not cache.is_stale
    store.seconds = STALE_AFTER_SECONDS + 0.01
    assert cache.is_stale
    assert STALE_AFTER_SECONDS < 1


def test_uses_are_written_periodically_and_never_undo_a_revocation() -> None:
    store = TokenStore()
    token, text = store.add(replace(SPEC, expires_at_ms=None))
    cache = store.cache()
    cache.verify(text)
    (used,) = cache.take_uses()
    assert used.last_used_at_ms == store.ms
    cache.verify(text)
    assert cache.take_uses() == ()
    store.ms += USE_WRITE_INTERVAL_MS
    cache.verify(text)
    assert [one.last_used_at_ms for one in cache.take_uses()] == [store.ms]
    store.ms += USE_WRITE_INTERVAL_MS
    cache.verify(text)
    cache.put(replace(token, revoked_at_ms=store.ms))
    assert cache.take_uses() == ()
