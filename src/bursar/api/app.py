"""The application: one way in for every request, and one way out for every answer.

host and site -> route -> token -> permission -> leader -> parameters -> endpoint -> answer
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Final

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
from bursar.api.http.errors import engine_fault, internal_error, not_leader, user_error
from bursar.api.http.request import ApiSettings, AppContext, RequestContext, answer
from bursar.api.http.route import Open, Reply, Route, RouteTable
from bursar.api.openapi import OPENAPI_PATH, openapi
from bursar.api.routes import ROUTES, job_document_schema
from bursar.api.streams.event_hub import EventHub
from bursar.api.wire.jobs import REQUEST_ID_HEADER
from bursar.control.access.permissions import denied, has_permission
from bursar.control.access.token_cache import TokenCache
from bursar.control.control_plane import ControlPlane
from bursar.control.requests.submission import NotLeader
from bursar.control.requests.token_requests import AddAuditEntry, PutTokens
from bursar.model.errors import EngineFault, UserError
from bursar.model.tenants.identity import Identity, Permission
from bursar.ports import AuditEntry, Clock

LOG = logging.getLogger("bursar.api")

READING_THREADS: Final = 4
USES_WRITTEN_SECONDS: Final = 20.0

SECURITY_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)


class App:
    """The ASGI application. A route that does not say who may use it stops it from being made."""

    def __init__(
        self,
        plane: ControlPlane,
        settings: ApiSettings,
        clock: Clock,
        routes: Sequence[Route] = ROUTES,
    ) -> None:
        self._table = RouteTable((*routes, self._describing_route()))
        self._openapi = openapi(self._table.routes, job_document_schema())
        self._hosts = HostList(settings.allowed_hosts)
        self._bad_tokens = AnonymousLimit()
        self._strangers = AnonymousLimit()
        self._threads = ThreadPoolExecutor(READING_THREADS, thread_name_prefix="bursar-read")
        self.desk = AppContext(
            plane=plane,
            settings=settings,
            book=TokenCache(plane.reader.tokens, clock),
            clock=clock,
            readers=self._threads,
        )
        self.desk.hub = EventHub(self.desk)
        self._chores: asyncio.Task[None] | None = None
        self._process = secrets.token_hex(4)
        self._numbers = count(1)

    @property
    def routes(self) -> tuple[Route, ...]:
        return self._table.routes

    def _describing_route(self) -> Route:
        async def describe(_call: RequestContext) -> Response:
            return answer(self._openapi)

        return Route(
            method="GET",
            path=OPENAPI_PATH,
            needs=Open.TO_ALL,
            endpoint=describe,
            about="This description.",
            replies={200: Reply(about="OpenAPI 3.1.")},
        )

    # -- life ------------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._chores = asyncio.create_task(self._write_uses())
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def close(self) -> None:
        """End the streams and the threads; requests under way are answered first by the server."""
        self.desk.closing.set()
        if self._chores is not None:
            self._chores.cancel()
            with suppress(asyncio.CancelledError):
                await self._chores
        await self.desk.hub.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _write_uses(self) -> None:
        """Write down now and then when tokens were last used; only the leader can."""
        while True:
            await asyncio.sleep(USES_WRITTEN_SECONDS)
            if self.desk.plane.is_leader:
                used = self.desk.book.take_uses()
                if used:
                    self.desk.plane.send(PutTokens(tokens=used))

    # -- one request -----------------------------------------------------------------------------

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = f"{self._process}{next(self._numbers):08x}"
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [
                    *message.get("headers", ()),
                    *SECURITY_HEADERS,
                    (_REQUEST_ID, request_id.encode("ascii")),
                ]
            await send(message)

        try:
            response = await self._answer(scope, receive, request_id)
            await response(scope, receive, send_with_headers)
        except Disconnected:
            return
        except Exception:
            LOG.exception("request %s: %s %s", request_id, scope["method"], scope["path"])
            if started:
                raise
            failed = internal_error(request_id).response()
            await failed(scope, receive, send_with_headers)

    async def _answer(self, scope: Scope, receive: Receive, request_id: str) -> Response:
        call: RequestContext | None = None
        try:
            headers = read_headers(scope["headers"])
            method: str = scope["method"]
            self._hosts.check(headers, method)
            route, path = self._table.find(method, scope["path"])
            call = RequestContext(
                desk=self.desk,
                route=route,
                identity=None,
                query={},
                path=path,
                headers=headers,
                receive=receive,
                request_id=request_id,
            )
            await self._let_in(call, scope)
            call.query = route.read_query(scope["query_string"])
            response = await route.endpoint(call)
        except UserError as error:
            self._note_refusal(error, call, scope)
            return user_error(error, request_id).response()
        except NotLeader as error:
            return user_error(not_leader(error.leader_address), request_id).response()
        except EngineFault as error:
            return engine_fault(error, request_id).response()
        if route.is_audited:
            call.note("done")
        return response

    def _note_refusal(self, error: UserError, call: RequestContext | None, scope: Scope) -> None:
        """A refusal for want of a right is written to the audit log; a mistake is not.

        Of strangers only so many are, or they could fill the log.
        """
        detail = f"{error.code}: {error.problem}"
        if call is not None and error.code in _DENIED:
            call.note("denied", detail)
        elif error.code in _NOBODY and not self._strangers.is_over(_address_of(scope)):
            entry = AuditEntry(
                at_ms=self.desk.clock.now_ms(),
                user="",
                token_id="",
                action=f"{scope['method']} {scope['path']}"[:200],
                subject=_address_of(scope),
                outcome="denied",
                detail=detail[:500],
            )
            self.desk.plane.send(AddAuditEntry(entry=entry))

    async def _let_in(self, call: RequestContext, scope: Scope) -> None:
        """Who it is, and whether he may. Nothing of the request is looked at before."""
        needs = call.route.needs
        if needs is Open.TO_ALL:
            return
        call.identity = await self._identify(call.headers, scope)
        if isinstance(needs, Permission) and not has_permission(call.identity, needs):
            raise denied(
                f"this needs the permission {needs}, which your token does not have.",
                "Ask a lead or an admin of your tenant for a token that has it.",
            )
        if call.route.writes and not self.desk.plane.is_leader:
            address = await self.desk.read(lambda: self.desk.plane.leader_address)
            raise not_leader(address)

    async def _identify(self, headers: Mapping[str, str], scope: Scope) -> Identity:
        await self.desk.keep_book()
        text = token_text(headers)
        book: Authenticator = self.desk.book
        identity = book.verify(text)
        if identity is None and book.may_miss_new_tokens:
            await self.desk.renew_book()
            identity = book.verify(text)
        if identity is None:
            if self._bad_tokens.is_over(_address_of(scope)):
                raise too_many_bad_tokens()
            raise bad_token()
        return identity


def _address_of(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


_REQUEST_ID: Final = REQUEST_ID_HEADER.lower().encode("ascii")
_DENIED: Final = frozenset({"forbidden", "scope-beyond-role"})
_NOBODY: Final = frozenset({"bad-token", "no-token", "cross-site", "wrong-host"})
"""Refusals of somebody we know, and of nobody we know."""
