"""Tokens: whose there are, new ones, and their end; and who the caller is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from starlette.responses import Response

from bursar.api import wire
from bursar.api.http.errors import HttpRefusal
from bursar.api.http.request import RequestContext, answer
from bursar.api.wire import views
from bursar.control.access.permissions import (
    Grant,
    can_see_token,
    denied,
    grant_scopes,
    may_revoke,
    permissions_of,
    visible_queues,
)
from bursar.control.access.token_cache import TokenSpec, new_token
from bursar.control.requests.token_requests import PutTokens
from bursar.model.tenants.identity import Permission, Role, Token
from bursar.model.units import SECOND_MS

LONGEST_NAME = 128
LONGEST_LIFE_SECONDS = 10 * 366 * 24 * 3600
_KEYS = frozenset({"user", "role", "tenant", "scopes", "expires_in_seconds"})


async def list_tokens(call: RequestContext) -> Response:
    """The tokens of the tenants within reach, newest first; never their secrets."""
    tree = (await call.desk.ground()).tree
    found = [one for one in call.desk.book.all() if can_see_token(call.who, one, tree)]
    return answer({"items": [views.token(one) for one in found]})


async def create_token(call: RequestContext) -> Response:
    """A new token. Its text is in this answer and nowhere else, ever."""
    grant, life_seconds = read_request(await call.json_body())
    call.subject = f"{grant.role} {grant.user} at {grant.tenant or 'the installation'}"
    scopes = grant_scopes(call.who, grant, (await call.desk.ground()).tree)
    now_ms = call.desk.clock.now_ms()
    terms = TokenSpec(
        user=grant.user,
        role=grant.role,
        tenant=grant.tenant,
        scopes=scopes,
        created_by=call.who.user,
        expires_at_ms=None if life_seconds is None else now_ms + life_seconds * SECOND_MS,
    )
    token, text = new_token(terms, now_ms)
    await call.desk.send(PutTokens(tokens=[token]))
    call.desk.book.put(token)
    call.subject = f"{token.id} {call.subject}"
    made: wire.NewToken = {
        "id": token.id,
        "token": text,
        "user": token.user,
        "role": token.role.value,
        "tenant": token.tenant,
        "scopes": [one.value for one in token.scopes],
        "expires_at_ms": token.expires_at_ms,
    }
    return answer(made, 201)


async def revoke_token(call: RequestContext) -> Response:
    """End a token: here at once, everywhere within a second."""
    token = _find(call, (await call.desk.ground()).tree)
    if not may_revoke(call.who, token):
        raise denied(
            f"{token.id} is the token of a {token.role}, and you are a {call.who.role}.",
            f"Ask somebody with the role {token.role}.",
        )
    if token.revoked_at_ms is None:
        token = replace(token, revoked_at_ms=call.desk.clock.now_ms())
        call.desk.book.put(token)
        await call.desk.send(PutTokens(tokens=[token]))
    return answer(views.token(token))


def _find(call: RequestContext, tree: Any) -> Token:
    token_id = call.path["token_id"]
    token = call.desk.book.get(token_id)
    if token is not None and can_see_token(call.who, token, tree):
        return token
    if token is not None:
        call.note("hidden", f"token {token.id}")
    raise HttpRefusal(
        f"there is no token {token_id[:80]!r}.",
        fix="'bursar token list' (GET /v1/tokens) lists those you may see.",
        code="no-such-token",
    )


async def whoami(call: RequestContext) -> Response:
    """Who the server takes the caller for, and what he may do."""
    who = call.who
    tree = (await call.desk.ground()).tree
    seen = visible_queues(who, tree)
    me: wire.WhoAmI = {
        "user": who.user,
        "role": who.role.value,
        "tenant": who.tenant,
        "permissions": [cast(wire.Scope, one) for one in sorted(permissions_of(who))],
        "queues": sorted(tree.queues if seen is None else seen),
        "token_id": who.token_id,
    }
    return answer(me)


# -- reading the request -----------------------------------------------------------------------------


def read_request(plain: Any) -> tuple[Grant, int | None]:
    """What is asked for, and for how many seconds."""
    if not isinstance(plain, dict) or not set(plain) <= _KEYS:
        raise _wrong("the body", f"Send an object with the keys {', '.join(sorted(_KEYS))}.")
    life = plain.get("expires_in_seconds")
    if life is not None and (type(life) is not int or not 1 <= life <= LONGEST_LIFE_SECONDS):
        fix = f"Write a whole number from 1 to {LONGEST_LIFE_SECONDS:,}, or leave it out."
        raise _wrong("expires_in_seconds", fix)
    grant = Grant(
        user=_name(plain, "user"),
        role=_role(plain.get("role")),
        tenant=_name(plain, "tenant", may_be_empty=True),
        scopes=_scopes(plain.get("scopes")),
    )
    return grant, life


def _name(plain: dict[str, Any], key: str, *, may_be_empty: bool = False) -> str:
    value = plain.get(key)
    if not isinstance(value, str) or len(value) > LONGEST_NAME or not value.isprintable():
        raise _wrong(key, f"Write 1 to {LONGEST_NAME} printable characters.")
    if value != value.strip() or (not value and not may_be_empty):
        raise _wrong(key, "Write a name without blanks around it.")
    return value


def _role(value: Any) -> Role:
    names = [one.value for one in Role]
    if not isinstance(value, str) or value not in names:
        raise _wrong("role", f"Write one of {', '.join(names)}.")
    return Role(value)


def _scopes(value: Any) -> tuple[Permission, ...] | None:
    if value is None:
        return None
    names = [one.value for one in Permission]
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise _wrong("scopes", f"Write a list of {', '.join(names)}.")
    if not set(value) <= set(names):
        raise _wrong("scopes", f"Write only {', '.join(names)}.")
    return tuple(Permission(one) for one in value)


def _wrong(what: str, fix: str) -> HttpRefusal:
    return HttpRefusal(f"{what} is not as it should be.", fix=fix, code="wrong-value")
