"""The ASGI application, which every request goes through.

host and origin -> route -> token -> permission -> leader -> parameters -> endpoint -> response
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from bursar.api.http.authentication import (
    AnonymousLimit,
    Authenticator,
    HostList,
    bad_token,
    read_headers,
    token_text,
    too_many_bad_tokens,
)
from bursar.api.http.body import Disconnected
from bursar.api.http.errors import engine_fault, internal_error, not_leader, problem_response
from bursar.api.http.request import ApiSettings, AppContext, RequestContext, json_response
from bursar.api.http.route import Open, Route, RouteTable
from bursar.api.openapi import OPENAPI_PATH, openapi
from bursar.api.routes import ROUTES
from bursar.api.streams.event_hub import EventHub
from bursar.api.wire.jobs import REQUEST_ID_HEADER
from bursar.control.access.permissions import denied, permissions_of
from bursar.control.access.token_cache import TokenCache
from bursar.control.control_plane import ControlPlane
from bursar.control.requests.submission import NotLeader
from bursar.control.requests.token_requests import AddAuditEntry, PutTokens
from bursar.model.errors import EngineFault, UserError
from bursar.model.tenants.identity import Identity, Permission
from bursar.ports import AuditEntry, Clock

LOG = logging.getLogger("bursar.api")

READER_THREADS: Final = 4
TOKEN_USE_WRITE_SECONDS: Final = 20.0

SECURITY_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)


class App:
    """The ASGI application. A route without a declared permission makes construction fail."""

    def __init__(
        self,
        plane: ControlPlane,
        settings: ApiSettings,
        clock: Clock,
        routes: Sequence[Route] = ROUTES,
    ) -> None:
        self._table = RouteTable((*routes, self._openapi_route()))
        self._openapi = openapi(self._table.routes)
        self._hosts = HostList(settings.allowed_hosts)
        self._bad_tokens = AnonymousLimit()
        self._anonymous_audits = AnonymousLimit()
        self._threads = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="bursar-read")
        self.context = AppContext(
            plane=plane,
            settings=settings,
            tokens=TokenCache(plane.reader.tokens, clock),
            clock=clock,
            readers=self._threads,
        )
        self.context.hub = EventHub(self.context)
        self._token_use_writer: asyncio.Task[None] | None = None
        self._request_id_prefix = secrets.token_hex(4)
        self._request_numbers = count(1)

    @property
    def routes(self) -> tuple[Route, ...]:
        return self._table.routes

    def _openapi_route(self) -> Route:
        @Route("GET", OPENAPI_PATH, Open.TO_ALL, "OpenAPI 3.1.")
        async def describe(_request: RequestContext) -> dict[str, Any]:
            """This description."""
            return self._openapi

        return describe

    # -- lifespan --------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._token_use_writer = asyncio.create_task(self._write_token_uses())
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def close(self) -> None:
        """Ends the streams and the threads. The server completes pending requests first."""
        self.context.closing.set()
        if self._token_use_writer is not None:
            self._token_use_writer.cancel()
            with suppress(asyncio.CancelledError):
                await self._token_use_writer
        await self.context.hub.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _write_token_uses(self) -> None:
        """Stores from time to time when tokens were last used; only the leader can."""
        while True:
            await asyncio.sleep(TOKEN_USE_WRITE_SECONDS)
            if self.context.plane.is_leader:
                used = self.context.tokens.take_uses()
                if used:
                    self.context.plane.send(PutTokens(tokens=used))

    # -- one request -----------------------------------------------------------------------------

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = f"{self._request_id_prefix}{next(self._request_numbers):08x}"
        has_started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                message["headers"] = [
                    *message.get("headers", ()),
                    *SECURITY_HEADERS,
                    (_REQUEST_ID, request_id.encode("ascii")),
                ]
            await send(message)

        try:
            response = await self._respond(scope, receive, request_id)
            await response(scope, receive, send_with_headers)
        except Disconnected:
            return
        except Exception:
            LOG.exception("request %s: %s %s", request_id, scope["method"], scope["path"])
            if has_started:
                raise
            response = problem_response(internal_error(request_id), request_id)
            await response(scope, receive, send_with_headers)

    async def _respond(self, scope: Scope, receive: Receive, request_id: str) -> Response:
        request: RequestContext | None = None
        try:
            headers = read_headers(scope["headers"])
            method: str = scope["method"]
            self._hosts.check(headers, method)
            route, path = self._table.find(method, scope["path"])
            request = RequestContext(
                context=self.context,
                route=route,
                identity=None,
                query={},
                path=path,
                headers=headers,
                receive=receive,
                request_id=request_id,
            )
            await self._authorise(request, scope)
            request.query = route.read_query(scope["query_string"])
            result = await route.endpoint(request)
        except UserError as error:
            self._audit_refusal(error, request, scope)
            return problem_response(error, request_id)
        except NotLeader as error:
            return problem_response(not_leader(error.leader_address), request_id)
        except EngineFault as error:
            return problem_response(engine_fault(error), request_id)
        response = result if isinstance(result, Response) else json_response(result, route.status)
        if route.is_audited:
            request.audit("done")
        return response

    def _audit_refusal(
        self, error: UserError, request: RequestContext | None, scope: Scope
    ) -> None:
        """Writes a denied request to the audit log; other errors of the user are not written.

        Entries about unauthenticated requests are rate-limited, or they could fill the log.
        """
        detail = f"{error.code}: {error.problem}"
        if request is not None and error.code in _DENIED_CODES:
            request.audit("denied", detail)
        elif error.code in _ANONYMOUS_CODES and not self._anonymous_audits.count(
            _address_of(scope)
        ):
            entry = AuditEntry(
                at_ms=self.context.clock.now_ms(),
                user="",
                token_id="",
                action=f"{scope['method']} {scope['path']}"[:200],
                subject=_address_of(scope),
                outcome="denied",
                detail=detail[:500],
            )
            self.context.plane.send(AddAuditEntry(entry=entry))

    async def _authorise(self, request: RequestContext, scope: Scope) -> None:
        """Authenticates the caller and checks the permission, before anything else is parsed."""
        needs = request.route.needs
        if needs is Open.TO_ALL:
            return
        request.identity = await self._identify(request.headers, scope)
        if isinstance(needs, Permission) and needs not in permissions_of(request.identity):
            raise denied(
                f"this needs the permission {needs}, which your token does not have.",
                "Ask a lead or an admin of your tenant for a token that has it.",
            )
        if request.route.writes and not self.context.plane.is_leader:
            address = await self.context.run_blocking(lambda: self.context.plane.leader_address)
            raise not_leader(address)

    async def _identify(self, headers: Mapping[str, str], scope: Scope) -> Identity:
        await self.context.refresh_tokens()
        text = token_text(headers)
        tokens: Authenticator = self.context.tokens
        identity = tokens.verify(text)
        if identity is None and tokens.may_miss_new_tokens:
            await self.context.reload_tokens()
            identity = tokens.verify(text)
        if identity is None:
            if self._bad_tokens.count(_address_of(scope)):
                raise too_many_bad_tokens()
            raise bad_token()
        return identity


def _address_of(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


_REQUEST_ID: Final = REQUEST_ID_HEADER.lower().encode("ascii")
_DENIED_CODES: Final = frozenset({"forbidden", "scope-beyond-role"})
"""Refusals of an authenticated caller."""
_ANONYMOUS_CODES: Final = frozenset({"bad-token", "no-token", "cross-site", "wrong-host"})
"""Refusals of a request without a valid token."""
