"""Tokens in memory: what is kept, what is believed, and for how long."""

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

TERMS = TokenSpec(
    user="ann",
    role=Role.MEMBER,
    tenant="team-a",
    scopes=(Permission.READ_JOBS,),
    created_by="root",
    expires_at_ms=10_000,
)


@dataclass
class Shelf:
    """A store of tokens and two clocks that a test sets."""

    rows: dict[str, Token] = field(default_factory=dict)
    ms: int = 1_000
    seconds: float = 0.0

    def now_ms(self) -> int:
        return self.ms

    def book(self) -> TokenCache:
        book = TokenCache(lambda: list(self.rows.values()), self, lambda: self.seconds)
        book.refresh()
        return book

    def add(self, terms: TokenSpec = TERMS) -> tuple[Token, str]:
        token, text = new_token(terms, self.ms)
        self.rows[token.id] = token
        return token, text


def test_a_token_is_long_random_and_kept_only_as_a_hash() -> None:
    shelf = Shelf()
    token, text = shelf.add()
    other, _ = shelf.add()
    prefix, token_id, secret = text.split("_", 2)
    assert (prefix, token_id) == ("bur", token.id)
    assert len(secret) == 43
    assert secret not in repr(token)
    assert token.secret_sha256 != other.secret_sha256 and token.id != other.id


def test_a_good_token_says_who_it_is() -> None:
    shelf = Shelf()
    token, text = shelf.add()
    found = shelf.book().verify(text)
    assert found is not None
    assert (found.user, found.role, found.tenant) == ("ann", Role.MEMBER, "team-a")
    assert found.scopes == {Permission.READ_JOBS} and found.token_id == token.id


def test_the_first_token_may_do_everything() -> None:
    shelf = Shelf()
    _, text = shelf.add(admin_token_spec("root"))
    found = shelf.book().verify(text)
    assert found is not None and found.scopes == frozenset(Permission)


@pytest.mark.parametrize(
    "bend",
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
def test_a_bent_token_is_nobodys(bend: object) -> None:
    shelf = Shelf()
    _, text = shelf.add()
    assert shelf.book().verify(bend(text)) is None  # type: ignore[operator]


def test_an_expired_token_is_nobodys() -> None:
    shelf = Shelf()
    token, text = shelf.add()
    book = shelf.book()
    shelf.ms = 9_999
    assert book.verify(text) is not None and book.is_valid(token.id)
    shelf.ms = 10_000
    assert book.verify(text) is None and not book.is_valid(token.id)


def test_a_revocation_here_counts_at_once_and_outlives_an_older_reading() -> None:
    shelf = Shelf()
    token, text = shelf.add()
    book = shelf.book()
    book.put(replace(token, revoked_at_ms=shelf.ms))
    assert book.verify(text) is None
    book.refresh()
    assert book.verify(text) is None


def test_a_revocation_elsewhere_counts_after_the_next_reading() -> None:
    shelf = Shelf()
    token, text = shelf.add()
    book = shelf.book()
    shelf.rows[token.id] = replace(token, revoked_at_ms=shelf.ms)
    book.refresh()
    assert book.verify(text) is None


def test_a_changed_role_counts_after_the_next_reading() -> None:
    shelf = Shelf()
    token, text = shelf.add()
    book = shelf.book()
    assert book.verify(text) is not None
    shelf.rows[token.id] = replace(token, role=Role.VIEWER)
    book.refresh()
    found = book.verify(text)
    assert found is not None and found.role is Role.VIEWER


def test_what_was_read_is_not_believed_for_a_second() -> None:
    shelf = Shelf()
    book = shelf.book()
    assert not book.is_stale and not book.should_refresh
    shelf.seconds = 0.5
    assert book.should_refresh and not book.is_stale
    shelf.seconds = STALE_AFTER_SECONDS + 0.01
    assert book.is_stale
    assert STALE_AFTER_SECONDS < 1


def test_uses_are_written_now_and_then_and_never_undo_a_revocation() -> None:
    shelf = Shelf()
    token, text = shelf.add(replace(TERMS, expires_at_ms=None))
    book = shelf.book()
    book.verify(text)
    (used,) = book.take_uses()
    assert used.last_used_at_ms == shelf.ms
    book.verify(text)
    assert book.take_uses() == ()
    shelf.ms += USE_WRITE_INTERVAL_MS
    book.verify(text)
    assert [one.last_used_at_ms for one in book.take_uses()] == [shelf.ms]
    shelf.ms += USE_WRITE_INTERVAL_MS
    book.verify(text)
    book.put(replace(token, revoked_at_ms=shelf.ms))
    assert book.take_uses() == ()
