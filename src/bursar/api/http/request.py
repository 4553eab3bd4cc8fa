"""The context of one request, and what all requests share."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from starlette.responses import Response
from starlette.types import Receive

from bursar.accounting.ledger.ledger import Ledger
from bursar.api.http.body import media_type_of, parse_json, read_body
from bursar.api.http.errors import HttpRefusal, no_fleet
from bursar.api.http.route import Route
from bursar.catalog.prices.price_book import PriceBook
from bursar.control.access.permissions import (
    AccessTree,
    access_tree,
    visible_queues,
    visible_tenants,
)
from bursar.control.access.token_cache import TokenCache
from bursar.control.control_plane import ControlPlane
from bursar.control.requests.token_requests import AddAuditEntry
from bursar.control.requests.write_request import WriteRequest
from bursar.core.state.fleet_state import FleetState
from bursar.model.errors import BrokenInvariant
from bursar.model.tenants.identity import Identity
from bursar.ports import AuditEntry, Clock, StoreReader

if TYPE_CHECKING:
    from bursar.api.streams.event_hub import EventHub

P = ParamSpec("P")
T = TypeVar("T")

RESPONSE_TIMEOUT_SECONDS: Final = 30.0
CACHE_REFRESH_SECONDS: Final = 0.4
CACHE_STALE_SECONDS: Final = 1.0
FLEET_STALE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """Settings of the API server."""

    state_folder: Path
    allowed_hosts: tuple[str, ...] = ()
    max_bundle_bytes: int = 512 * 2**20
    max_followers: int = 1_000
    heartbeat_seconds: float = 15.0
    price_book: PriceBook = field(default_factory=PriceBook)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCache:
    """Facts about the fleet that every request needs, refreshed from the control plane."""

    tree: AccessTree
    cluster_of_pool: Mapping[str, str]


NO_FLEET: Final = FleetCache(tree=AccessTree(parents={}, queues=frozenset()), cluster_of_pool={})


def read_fleet_cache(state: FleetState, _now_ms: int) -> FleetCache:
    """Copies the facts from the state; runs on the writer's thread."""
    clusters = {name: pool.spec.cluster for name, pool in state.pools.items()}
    return FleetCache(tree=access_tree(state.tenants.values()), cluster_of_pool=clusters)


class CachedValue:
    """A value that is loaded again when it is old, by one task at a time."""

    def __init__(
        self, load: Callable[[], Awaitable[Any]], refresh_after: float, stale_after: float
    ) -> None:
        self._load = load
        self._refresh_after = refresh_after
        self._stale_after = stale_after
        self._value: Any = None
        self._loaded_at: float | None = None
        self._loading: asyncio.Task[None] | None = None

    def invalidate(self) -> None:
        """The next ``get`` loads a new value."""
        self._loaded_at = None

    async def get(self) -> Any:
        """Returns the value; waits for a new one only if there is none or it is stale."""
        age = float("inf") if self._loaded_at is None else time.monotonic() - self._loaded_at
        if age > self._refresh_after:
            loading = self.start_loading()
            if age > self._stale_after:
                await asyncio.shield(loading)
        return self._value

    def start_loading(self) -> asyncio.Task[None]:
        """Starts to load the value unless that is under way."""
        if self._loading is None:
            self._loading = asyncio.create_task(self._reload())
            self._loading.add_done_callback(self._loaded)
        return self._loading

    def _loaded(self, task: asyncio.Task[None]) -> None:
        self._loading = None
        if not task.cancelled():
            task.exception()

    async def _reload(self) -> None:
        began = time.monotonic()
        self._value = await self._load()
        self._loaded_at = began


@dataclass(slots=True, kw_only=True)
class AppContext:
    """What all requests share."""

    plane: ControlPlane
    settings: ApiSettings
    tokens: TokenCache
    clock: Clock
    readers: Executor
    followers: int = 0
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    hub: EventHub = field(init=False)
    _token_reload: CachedValue = field(init=False)
    _cache: dict[str, CachedValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._token_reload = CachedValue(lambda: self.run_blocking(self.tokens.refresh), 0.0, 0.0)

    async def refresh_tokens(self) -> None:
        """Starts to reload tokens that are old; waits only if they are stale."""
        if self.tokens.is_stale:
            await self._token_reload.get()
        elif self.tokens.should_refresh:
            self._token_reload.start_loading()

    async def reload_tokens(self) -> None:
        """Reads the tokens again, now."""
        await self._token_reload.get()

    def cached(
        self,
        name: str,
        load: Callable[[], Awaitable[Any]],
        stale_after: float = CACHE_STALE_SECONDS,
    ) -> CachedValue:
        """A value that requests share for a short time."""
        if name not in self._cache:
            self._cache[name] = CachedValue(load, CACHE_REFRESH_SECONDS, stale_after)
        return self._cache[name]

    async def fleet(self) -> FleetCache:
        """The tenants and pools, at most a few seconds old; empty before a fleet is declared."""
        if self.plane.declaration() is None:
            return NO_FLEET
        cache = self.cached(
            "tenants", lambda: self.query_state(read_fleet_cache), FLEET_STALE_SECONDS
        )
        fleet: FleetCache = await cache.get()
        return fleet

    def invalidate_caches(self) -> None:
        """The fleet was changed: the next request of any user must see it."""
        for cache in self._cache.values():
            cache.invalidate()

    async def run_blocking(self, function: Callable[..., T], *arguments: Any) -> T:
        """Runs a function that blocks (on the store, a file) on one of a few threads."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.readers, function, *arguments)

    async def wait(self, future: Future[T]) -> T:
        """Waits for the control plane's result; refuses the request if it does not come in time."""
        try:
            async with asyncio.timeout(RESPONSE_TIMEOUT_SECONDS):
                return await asyncio.shield(asyncio.wrap_future(future))
        except TimeoutError as error:
            raise HttpRefusal(
                f"no response within {RESPONSE_TIMEOUT_SECONDS:g} s; the request may still be carried out.",
                fix="Send it again; with the same Idempotency-Key it is carried out once.",
                code="too-busy",
                headers={"Retry-After": "5"},
            ) from error

    async def send(self, request: WriteRequest[T]) -> T:
        """Has the control plane commit a request, and returns its result."""
        return await self.wait(self.plane.send(request))

    async def query_state(self, query: Callable[[FleetState, int], T]) -> T:
        """Runs a query on the live state."""
        if self.plane.declaration() is None:
            raise no_fleet()
        return await self.wait(self.plane.query_state(query))

    async def query_ledger(self, query: Callable[[Ledger, FleetState, int], T]) -> T:
        """Runs a query on the ledger and the live state."""
        if self.plane.declaration() is None:
            raise no_fleet()
        return await self.wait(self.plane.query_ledger(query))


@dataclass(slots=True, kw_only=True)
class RequestContext:
    """One request."""

    context: AppContext
    route: Route
    identity: Identity | None
    query: dict[str, Any]
    path: dict[str, str]
    headers: Mapping[str, str]
    receive: Receive
    request_id: str
    last_sent_at: float = field(default_factory=time.monotonic)
    subject: str = ""
    """What the audit log names as the object of the action."""

    @property
    def caller(self) -> Identity:
        """The authenticated caller; a public route has none."""
        if self.identity is None:
            raise BrokenInvariant(f"{self.route.name} is public and has no caller")
        return self.identity

    async def body(self) -> tuple[str, bytes]:
        """The media type and the whole body."""
        expected = self.route.body
        if expected is None:
            raise BrokenInvariant(f"{self.route.name} has no body")
        media = media_type_of(self.headers, expected.media)
        return media, await read_body(self.receive, self.headers, expected.max_bytes)

    async def json_body(self) -> Any:
        _, body = await self.body()
        return parse_json(body)

    async def visible_queues(self) -> frozenset[str] | None:
        """The queues whose jobs the caller may see; None means all."""
        return visible_queues(self.caller, (await self.context.fleet()).tree)

    async def visible_tenants(self) -> frozenset[str]:
        """The tenants that the caller may see."""
        return visible_tenants(self.caller, (await self.context.fleet()).tree)

    async def read_store(
        self, query: Callable[Concatenate[StoreReader, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Runs a query on the store, which blocks, on one of a few threads."""
        reader = self.context.plane.reader
        return await self.context.run_blocking(partial(query, reader, *args, **kwargs))

    async def has_valid_token(self) -> bool:
        """Whether the token of a stream is still valid; a revoked one ends the stream."""
        await self.context.refresh_tokens()
        return self.context.tokens.is_valid(self.caller.token_id)

    def needs_heartbeat(self, interval_seconds: float) -> bool:
        """Whether a stream must send a heartbeat now; true counts as sent."""
        now = time.monotonic()
        if now - self.last_sent_at < interval_seconds:
            return False
        self.last_sent_at = now
        return True

    def audit(self, outcome: str, detail: str = "") -> None:
        """Writes an entry to the audit log."""
        caller = self.identity
        entry = AuditEntry(
            at_ms=self.context.clock.now_ms(),
            user=caller.user if caller is not None else "",
            token_id=caller.token_id if caller is not None else "",
            action=self.route.name,
            subject=self.subject or ",".join(self.path.values())[:200],
            outcome=outcome,
            detail=detail[:500],
        )
        self.context.plane.send(AddAuditEntry(entry=entry))


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A response with a wire value as JSON."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Response(
        text.encode("utf-8", "backslashreplace"),
        status_code=status,
        media_type="application/json",
        headers=dict(headers) if headers else None,
    )
