"""Lists, creates and revokes tokens; returns the caller's identity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bursar.api import wire
from bursar.api.http.errors import HttpRefusal
from bursar.api.http.request import RequestContext
from bursar.api.http.route import Open, Route, json_body
from bursar.api.wire.views import to_wire
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

MAX_NAME_LENGTH = 128
MAX_LIFETIME_SECONDS = 10 * 366 * 24 * 3600
_KEYS = frozenset({"user", "role", "tenant", "scopes", "expires_in_seconds"})


@Route("GET", "/v1/tokens", Permission.WRITE_TOKENS, "One row for each token.")
async def list_tokens(request: RequestContext) -> wire.TokenPage:
    """Tokens of the tenants that you may see, without their secrets."""
    tree = (await request.context.fleet()).tree
    tokens = [
        one for one in request.context.tokens.all() if can_see_token(request.caller, one, tree)
    ]
    return {"items": [to_wire(one, wire.TokenRow) for one in tokens]}


@Route(
    "POST",
    "/v1/tokens",
    Permission.WRITE_TOKENS,
    "The token.",
    status=201,
    body=json_body(wire.TokenRequest, max_bytes=64 * 2**10),
    writes=True,
    is_audited=True,
)
async def create_token(request: RequestContext) -> wire.NewToken:
    """Create a token, with at most your own permissions. Its text is shown only once."""
    grant, lifetime_seconds = read_request(await request.json_body())
    request.subject = f"{grant.role} {grant.user} at {grant.tenant or 'the installation'}"
    scopes = grant_scopes(request.caller, grant, (await request.context.fleet()).tree)
    now_ms = request.context.clock.now_ms()
    terms = TokenSpec(
        user=grant.user,
        role=grant.role,
        tenant=grant.tenant,
        scopes=scopes,
        created_by=request.caller.user,
        expires_at_ms=None if lifetime_seconds is None else now_ms + lifetime_seconds * SECOND_MS,
    )
    token, text = new_token(terms, now_ms)
    await request.context.send(PutTokens(tokens=[token]))
    request.context.tokens.put(token)
    request.subject = f"{token.id} {request.subject}"
    return to_wire(token, wire.NewToken, token=text)


@Route(
    "POST",
    "/v1/tokens/{token_id}:revoke",
    Permission.WRITE_TOKENS,
    "The token as it is now.",
    writes=True,
    is_audited=True,
)
async def revoke_token(request: RequestContext) -> wire.TokenRow:
    """Revoke a token, on all processes within one second."""
    token = _find(request, (await request.context.fleet()).tree)
    if not may_revoke(request.caller, token):
        raise denied(
            f"{token.id} has the role {token.role}, and your role is {request.caller.role}.",
            f"Ask a user with the role {token.role}.",
        )
    if token.revoked_at_ms is None:
        token = replace(token, revoked_at_ms=request.context.clock.now_ms())
        request.context.tokens.put(token)
        await request.context.send(PutTokens(tokens=[token]))
    return to_wire(token, wire.TokenRow)


def _find(request: RequestContext, tree: Any) -> Token:
    token_id = request.path["token_id"]
    token = request.context.tokens.get(token_id)
    if token is not None and can_see_token(request.caller, token, tree):
        return token
    if token is not None:
        request.audit("hidden", f"token {token.id}")
    raise HttpRefusal(
        f"there is no token {token_id[:80]!r}.",
        fix="'bursar token list' (GET /v1/tokens) lists the tokens that you may see.",
        code="no-such-token",
    )


@Route("GET", "/v1/whoami", Open.TO_ANY_TOKEN, "The identity.")
async def whoami(request: RequestContext) -> wire.WhoAmI:
    """Your identity and permissions."""
    caller = request.caller
    tree = (await request.context.fleet()).tree
    visible = visible_queues(caller, tree)
    return to_wire(
        caller,
        wire.WhoAmI,
        permissions=sorted(permissions_of(caller)),
        queues=sorted(tree.queues if visible is None else visible),
    )


# -- parsing of requests -----------------------------------------------------------------------------


def read_request(plain: Any) -> tuple[Grant, int | None]:
    """The grant, and its lifetime in seconds."""
    if not isinstance(plain, dict) or not set(plain) <= _KEYS:
        raise _wrong("the body", f"Send an object with the keys {', '.join(sorted(_KEYS))}.")
    lifetime = plain.get("expires_in_seconds")
    if lifetime is not None and (
        type(lifetime) is not int or not 1 <= lifetime <= MAX_LIFETIME_SECONDS
    ):
        fix = f"Write a whole number from 1 to {MAX_LIFETIME_SECONDS:,}, or leave it out."
        raise _wrong("expires_in_seconds", fix)
    grant = Grant(
        user=_name(plain, "user"),
        role=_role(plain.get("role")),
        tenant=_name(plain, "tenant", may_be_empty=True),
        scopes=_scopes(plain.get("scopes")),
    )
    return grant, lifetime


def _name(plain: dict[str, Any], key: str, *, may_be_empty: bool = False) -> str:
    value = plain.get(key)
    if not isinstance(value, str) or len(value) > MAX_NAME_LENGTH or not value.isprintable():
        raise _wrong(key, f"Write 1 to {MAX_NAME_LENGTH} printable characters.")
    if value != value.strip() or (not value and not may_be_empty):
        raise _wrong(key, "Write a name without leading or trailing spaces.")
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
    return HttpRefusal(f"{what} is not valid.", fix=fix, code="wrong-value")
