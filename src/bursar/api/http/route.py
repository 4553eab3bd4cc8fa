"""Declarations of routes: permission, parameters, body and replies.

Requests are checked against the declaration and OpenAPI is generated from it, so the two cannot differ. A
route without a declared permission is refused when the server starts.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, get_type_hints, is_typeddict
from urllib.parse import parse_qsl

from bursar.api.http.errors import HttpRefusal
from bursar.api.wire.jobs import JSON
from bursar.api.wire.schemas import reference
from bursar.model.errors import BrokenInvariant
from bursar.model.suggestion import did_you_mean
from bursar.model.tenants.identity import Permission

if TYPE_CHECKING:
    from bursar.api.http.request import RequestContext

Endpoint = Callable[["RequestContext"], Awaitable[object]]
"""Returns a wire value, which is sent as JSON, or a whole response."""

MAX_PARAMETERS = 32


class Open(Enum):
    """Access to a route that needs no particular permission; always declared explicitly."""

    TO_ALL = "public"
    TO_ANY_TOKEN = "any token"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One query parameter or header."""

    name: str
    about: str
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    pattern: str = ""
    max_length: int = 200
    is_repeated: bool = False

    @property
    def is_number(self) -> bool:
        return self.minimum is not None

    def read(self, text: str) -> str | int:
        """Parses the value; the refusal of a wrong one names what is allowed."""
        if self.is_number:
            return self._number(text)
        if self.choices and text not in self.choices:
            raise self._wrong(text, f"Write one of {', '.join(self.choices)}.")
        if self.pattern and not re.fullmatch(self.pattern, text):
            raise self._wrong(text, f"It must match {self.pattern}.")
        if len(text) > self.max_length or not text.isprintable():
            raise self._wrong(text, f"Write at most {self.max_length} printable characters.")
        return text

    def _number(self, text: str) -> int:
        assert self.minimum is not None
        assert self.maximum is not None
        value = int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None
        if value is None or not self.minimum <= value <= self.maximum:
            raise self._wrong(
                text, f"Write a whole number from {self.minimum} to {self.maximum:,}."
            )
        return value

    def _wrong(self, text: str, fix: str) -> HttpRefusal:
        return HttpRefusal(f"{self.name} is {text[:60]!r}.", fix=fix, code="wrong-value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """The body of a request: a schema for each media type, and a size limit."""

    media: Mapping[str, Any]
    max_bytes: int
    kind: Any = None
    """The wire type that a schema refers to."""


def json_body(kind: Any, max_bytes: int) -> Body:
    """A wire type as JSON."""
    return Body(media={JSON: reference(kind)}, max_bytes=max_bytes, kind=kind)


async def _no_endpoint(_request: RequestContext) -> object:
    raise BrokenInvariant("a route is not declared on a function")


@dataclass(frozen=True, slots=True)
class Route:
    """A route, declared as the decorator of its endpoint.

    The first paragraph of the endpoint's docstring is ``about``. The wire type that it returns is
    ``kind``, the type of the reply; an endpoint that returns a whole response declares it.
    """

    method: str
    path: str
    needs: Permission | Open | None
    reply: str
    """Describes a success."""
    status: int = 200
    other_replies: Mapping[int, str] = field(default_factory=dict)
    """Descriptions of successes with other statuses."""
    kind: Any = None
    media: tuple[str, ...] = (JSON,)
    problems: tuple[int, ...] = ()
    query: tuple[Parameter, ...] = ()
    body: Body | None = None
    headers: tuple[Parameter, ...] = ()
    writes: bool = False
    """Only the leader serves it."""
    takes_head: bool = False
    """A GET that also serves HEAD."""
    is_audited: bool = False
    """The API writes a success to the audit log; other writes commit their own entry."""
    about: str = ""
    endpoint: Endpoint = _no_endpoint

    def __call__(self, endpoint: Endpoint) -> Route:
        """The route of this endpoint."""
        about = (inspect.getdoc(endpoint) or "").partition("\n\n")[0]
        returned = get_type_hints(endpoint)["return"]
        kind = returned if is_typeddict(returned) else self.kind
        return replace(self, endpoint=endpoint, about=" ".join(about.split()), kind=kind)

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def path_parameters(self) -> tuple[str, ...]:
        return tuple(re.findall(r"{(\w+)}", self.path))

    def read_query(self, raw: bytes) -> dict[str, Any]:
        """Parses the query; a parameter that is not declared is refused."""
        if not raw:
            return {}
        known = {one.name: one for one in self.query}
        values: dict[str, Any] = {}
        for name, text in _pairs(raw):
            parameter = known.get(name)
            if parameter is None:
                raise _unknown(name, known)
            if parameter.is_repeated:
                values.setdefault(name, []).append(parameter.read(text))
            elif name in values:
                raise HttpRefusal(
                    f"{name} is there twice.", fix="Send it once.", code="wrong-value"
                )
            else:
                values[name] = parameter.read(text)
        return values


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            max_num_fields=MAX_PARAMETERS,
            errors="strict",
        )
    except ValueError as error:
        raise HttpRefusal(
            "the query cannot be read.",
            fix=f"Send at most {MAX_PARAMETERS} parameters, percent-encoded as UTF-8.",
            code="bad-request",
        ) from error


def _unknown(name: str, known: Iterable[str]) -> HttpRefusal:
    names = sorted(known)
    fix = f"Write one of {', '.join(names)}." if names else "This route has no parameters."
    return HttpRefusal(
        f"there is no parameter {name[:60]!r}.",
        fix=did_you_mean(name, names) or fix,
        code="unknown-parameter",
    )


# -- lookup of routes ------------------------------------------------------------------------------


@dataclass(slots=True)
class RouteTable:
    """All routes, looked up by method and path."""

    routes: tuple[Route, ...]
    _fixed: dict[str, dict[str, Route]] = field(default_factory=dict)
    _patterns: list[tuple[re.Pattern[str], dict[str, Route]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        _refuse_undeclared(self.routes)
        patterns: dict[str, dict[str, Route]] = {}
        for route in self.routes:
            table = patterns if route.path_parameters else self._fixed
            methods = table.setdefault(route.path, {})
            if route.method in methods:
                raise BrokenInvariant(f"{route.name} is twice in the route table")
            methods[route.method] = route
        for path in sorted(patterns, key=lambda one: (":" not in one, one)):
            parts = re.split(r"{(\w+)}", path)
            pattern = "".join(
                f"(?P<{part}>[^/]+)" if index % 2 else re.escape(part)
                for index, part in enumerate(parts)
            )
            self._patterns.append((re.compile(pattern), patterns[path]))

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """Finds the route, and the parameters in its path."""
        methods = self._fixed.get(path)
        if methods is not None:
            return _by_method(methods, method), {}
        allowed: dict[str, Route] = {}
        for pattern, others in self._patterns:
            match = pattern.fullmatch(path)
            if match is not None:
                route = _route_for(others, method)
                if route is not None:
                    return route, match.groupdict()
                allowed |= others
        if allowed:
            return _by_method(allowed, method), {}
        raise HttpRefusal(
            "there is no route with this path.",
            fix="GET /v1/openapi.json lists all routes.",
            code="no-such-route",
        )


def _route_for(methods: Mapping[str, Route], method: str) -> Route | None:
    """The route for a method. HEAD goes to a GET that takes it; the server omits the body."""
    if method == "HEAD" and (route := methods.get("GET")) is not None and route.takes_head:
        return route
    return methods.get(method)


def _by_method(methods: Mapping[str, Route], method: str) -> Route:
    route = _route_for(methods, method)
    if route is not None:
        return route
    allowed = ", ".join(sorted(methods))
    raise HttpRefusal(
        f"this path does not take {method[:20]!r}.",
        fix=f"Use {allowed}.",
        code="wrong-method",
        headers={"Allow": allowed},
    )


def _refuse_undeclared(routes: Iterable[Route]) -> None:
    """Deny by default: the server does not start with a route that declares no permission."""
    for route in routes:
        if not isinstance(route.needs, Permission | Open):
            raise BrokenInvariant(
                f"{route.name} declares no permission; give it one above its endpoint"
            )
