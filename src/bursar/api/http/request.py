"""One request on its way, and the desk it is answered at."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from starlette.responses import Response
from starlette.types import Receive

from bursar.accounting.ledger.ledger import Ledger
from bursar.api.http.body import media_type_of, parse_json, read_body
from bursar.api.http.errors import HttpRefusal, no_fleet
from bursar.api.http.route import Route
from bursar.control.access.permissions import AccessTree, access_tree, visible_queues
from bursar.control.access.token_cache import TokenCache
from bursar.control.control_plane import ControlPlane
from bursar.control.requests.token_requests import AddAuditEntry
from bursar.control.requests.write_request import WriteRequest
from bursar.core.state.fleet_state import FleetState
from bursar.model.errors import BrokenInvariant
from bursar.model.tenants.identity import Identity
from bursar.ports import AuditEntry, Clock

if TYPE_CHECKING:
    from bursar.api.streams.event_hub import EventHub

T = TypeVar("T")

ANSWER_SECONDS: Final = 30.0
GROUND_RENEWED_AFTER_SECONDS: Final = 0.4
GROUND_STALE_AFTER_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """What the person who starts the server chooses."""

    state_folder: Path
    allowed_hosts: tuple[str, ...] = ()
    max_bundle_bytes: int = 512 * 2**20
    max_followers: int = 1_000
    heartbeat_seconds: float = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCache:
    """What every request needs to know of the fleet; asked of the control plane now and then."""

    tree: AccessTree
    cluster_of_pool: Mapping[str, str]


NO_GROUND: Final = FleetCache(tree=AccessTree(parents={}, queues=frozenset()), cluster_of_pool={})


def ground_of(state: FleetState, _now_ms: int) -> FleetCache:
    """Asked on the writer's thread, so it copies what it gives away."""
    clusters = {name: pool.spec.cluster for name, pool in state.pools.items()}
    return FleetCache(tree=access_tree(state.tenants.values()), cluster_of_pool=clusters)


class CachedReply:
    """The answer to a question, asked again when it is old, and by one at a time."""

    def __init__(
        self, ask: Callable[[], Awaitable[Any]], renew_after: float, stale_after: float
    ) -> None:
        self._ask = ask
        self._renew_after = renew_after
        self._stale_after = stale_after
        self._answer: Any = None
        self._at: float | None = None
        self._asking: asyncio.Task[None] | None = None

    def forget(self) -> None:
        """What was remembered is known to be wrong."""
        self._at = None

    async def get(self) -> Any:
        """The answer; waits for a new one only when there is none that will do."""
        age = float("inf") if self._at is None else time.monotonic() - self._at
        if age > self._renew_after:
            asking = self.begin()
            if age > self._stale_after:
                await asyncio.shield(asking)
        return self._answer

    def begin(self) -> asyncio.Task[None]:
        """Ask, unless somebody is asking already."""
        if self._asking is None:
            self._asking = asyncio.create_task(self._renew())
            self._asking.add_done_callback(self._asked)
        return self._asking

    def _asked(self, task: asyncio.Task[None]) -> None:
        self._asking = None
        if not task.cancelled():
            task.exception()

    async def _renew(self) -> None:
        began = time.monotonic()
        self._answer = await self._ask()
        self._at = began


@dataclass(slots=True, kw_only=True)
class AppContext:
    """What all requests share."""

    plane: ControlPlane
    settings: ApiSettings
    book: TokenCache
    clock: Clock
    readers: Executor
    followers: int = 0
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    hub: EventHub = field(init=False)
    _renewal: CachedReply = field(init=False)
    _remembered: dict[str, CachedReply] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._renewal = CachedReply(lambda: self.read(self.book.refresh), 0.0, 0.0)

    async def keep_book(self) -> None:
        """See that the tokens are known as of now; waits only when what is known is too old."""
        if self.book.is_stale:
            await self._renewal.get()
        elif self.book.should_refresh:
            self._renewal.begin()

    async def renew_book(self) -> None:
        """Read the tokens again, now."""
        await self._renewal.get()

    def remembered(self, name: str, ask: Callable[[], Awaitable[Any]]) -> CachedReply:
        """An answer that requests share for a moment."""
        found = self._remembered.get(name)
        if found is None:
            found = CachedReply(ask, GROUND_RENEWED_AFTER_SECONDS, 1.0)
            self._remembered[name] = found
        return found

    async def ground(self) -> FleetCache:
        """The tenants and pools, a few seconds old at most; nothing before a fleet is declared."""
        if self.plane.declaration() is None:
            return NO_GROUND
        found = self._remembered.get("ground")
        if found is None:
            found = CachedReply(
                lambda: self.ask(ground_of),
                GROUND_RENEWED_AFTER_SECONDS,
                GROUND_STALE_AFTER_SECONDS,
            )
            self._remembered["ground"] = found
        ground: FleetCache = await found.get()
        return ground

    def forget_ground(self) -> None:
        """The fleet was declared anew: everybody's next request must see it."""
        for one in self._remembered.values():
            one.forget()

    async def read(self, question: Callable[..., T], *arguments: Any) -> T:
        """Ask something that blocks (the store, a file), on one of a few threads."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.readers, question, *arguments)

    async def wait(self, future: Future[T]) -> T:
        """The control plane's answer, or a refusal when it does not come."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await asyncio.shield(asyncio.wrap_future(future))
        except TimeoutError as error:
            raise HttpRefusal(
                f"no answer within {ANSWER_SECONDS:g} s; what was asked may still be done.",
                fix="Ask again; with the same Idempotency-Key nothing is done twice.",
                code="too-busy",
                headers={"Retry-After": "5"},
            ) from error

    async def send(self, request: WriteRequest[T]) -> T:
        """Have the control plane commit a request, and wait for its answer."""
        return await self.wait(self.plane.send(request))

    async def ask(self, question: Callable[[FleetState, int], T]) -> T:
        """A question to the live state."""
        if self.plane.declaration() is None:
            raise no_fleet()
        return await self.wait(self.plane.query_state(question))

    async def query_ledger(self, question: Callable[[Ledger, FleetState, int], T]) -> T:
        """A question to the ledger, with the state beside it."""
        if self.plane.declaration() is None:
            raise no_fleet()
        return await self.wait(self.plane.query_ledger(question))


@dataclass(slots=True, kw_only=True)
class RequestContext:
    """One request."""

    desk: AppContext
    route: Route
    identity: Identity | None
    query: dict[str, Any]
    path: dict[str, str]
    headers: Mapping[str, str]
    receive: Receive
    request_id: str
    sent_at: float = field(default_factory=time.monotonic)
    subject: str = ""
    """What the audit log calls the thing that is acted on."""

    @property
    def who(self) -> Identity:
        """Whoever asks. A public route that wants to know is our mistake."""
        if self.identity is None:
            raise BrokenInvariant(f"{self.route.name} is public and asks who it is")
        return self.identity

    async def body(self) -> tuple[str, bytes]:
        """The media type and the whole body."""
        wanted = self.route.body
        if wanted is None:
            raise BrokenInvariant(f"{self.route.name} has no body")
        media = media_type_of(self.headers, wanted.media)
        return media, await read_body(self.receive, self.headers, wanted.max_bytes)

    async def json_body(self) -> Any:
        """The body as plain values."""
        _, body = await self.body()
        return parse_json(body)

    async def seen(self) -> frozenset[str] | None:
        """The queues whose jobs the caller sees; None is all."""
        return visible_queues(self.who, (await self.desk.ground()).tree)

    async def may_go_on(self) -> bool:
        """Whether a stream's token still holds: a revoked one ends what it began."""
        await self.desk.keep_book()
        return self.desk.book.is_valid(self.who.token_id)

    def is_quiet_for(self, seconds: float) -> bool:
        """Whether a stream has sent no sign of life for so long; asking counts as sending one."""
        now = time.monotonic()
        if now - self.sent_at < seconds:
            return False
        self.sent_at = now
        return True

    def note(self, outcome: str, detail: str = "") -> None:
        """Write an entry to the audit log."""
        who = self.identity
        entry = AuditEntry(
            at_ms=self.desk.clock.now_ms(),
            user=who.user if who is not None else "",
            token_id=who.token_id if who is not None else "",
            action=self.route.name,
            subject=self.subject or ",".join(self.path.values())[:200],
            outcome=outcome,
            detail=detail[:500],
        )
        self.desk.plane.send(AddAuditEntry(entry=entry))


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A wire value as JSON."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Response(
        text.encode("utf-8", "backslashreplace"),
        status_code=status,
        media_type="application/json",
        headers=dict(headers) if headers else None,
    )
