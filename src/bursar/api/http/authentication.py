"""Checks of every request before its route: the Host header, the origin, the token.

On a loopback address browsers are the danger: a page from any site can make a browser send requests there
(CSRF), and can make its own name resolve to it (DNS rebinding). Hence the list of allowed names, and the
origin check of every method that may change something.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol
from urllib.parse import urlsplit

from bursar.api.http.errors import HttpRefusal
from bursar.model.errors import UserError
from bursar.model.tenants.identity import Identity

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
SAME_ORIGIN: Final = frozenset({"same-origin", "none"})

SINGLE_HEADERS: Final = frozenset(
    {"host", "origin", "sec-fetch-site", "authorization", "content-type", "content-encoding"}
    | {"content-length", "idempotency-key", "last-event-id"}
)

BAD_TOKEN_BURST: Final = 10
BAD_TOKENS_PER_SECOND: Final = 1.0
MAX_ADDRESSES: Final = 1_024


class Authenticator(Protocol):
    """Maps a token to an identity. ``TokenCache`` implements it; OIDC would be another."""

    @property
    def should_refresh(self) -> bool: ...

    @property
    def is_stale(self) -> bool: ...

    @property
    def may_miss_new_tokens(self) -> bool: ...

    def refresh(self) -> None: ...

    def verify(self, text: str) -> Identity | None: ...


def check_bind(host: str, allow_remote: bool) -> None:
    """Refuses an address that other machines can reach, unless that is allowed explicitly.

    Every address needs tokens, but they are sent in clear text: a remote address needs a TLS proxy.
    """
    if is_loopback(host) or allow_remote:
        return
    raise UserError(
        f"{host!r} can be reached from other machines.",
        fix=(
            "Bind 127.0.0.1, or pass --allow-remote and put a TLS proxy in front: "
            "tokens are sent in clear text."
        ),
        code="remote-bind",
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address. Names other than localhost do not count."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name. A header that a decision depends on must not occur twice.

    A proxy and this server could otherwise choose different ones.
    """
    headers: dict[str, str] = {}
    for name_bytes, value in raw:
        name = name_bytes.decode("latin-1")
        if name in headers:
            if name in SINGLE_HEADERS:
                raise HttpRefusal(
                    f"the header {name!r} is there twice.", fix="Send it once.", code="bad-request"
                )
            continue
        headers[name] = value.decode("latin-1")
    return headers


class HostList:
    """The host names that the server accepts."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = LOOPBACK_NAMES | {name.lower().strip("[]") for name in names}

    def check(self, headers: Mapping[str, str], method: str) -> None:
        """Refuses a request for another host, or one that another site makes a browser send."""
        host = headers.get("host", "")
        if _host_name(host) not in self._names:
            raise HttpRefusal(
                f"the server does not accept requests for the host {host[:80]!r}.",
                fix="Use 127.0.0.1, or have the name added to the server's allowed hosts.",
                code="wrong-host",
            )
        if method not in SAFE_METHODS:
            _check_origin(headers, host)


def _check_origin(headers: Mapping[str, str], host: str) -> None:
    site = headers.get("sec-fetch-site")
    origin = headers.get("origin")
    is_cross_site = site is not None and site not in SAME_ORIGIN
    if origin is not None and not is_cross_site:
        is_cross_site = _authority(origin) != host.lower()
    if is_cross_site:
        raise HttpRefusal(
            f"a page of {(origin or 'another site')[:80]!r} may not send this request.",
            fix="Send the request from the command line, or from the server's own pages.",
            code="cross-site",
        )


def _authority(origin: str) -> str | None:
    try:
        split = urlsplit(origin)
    except ValueError:
        return None
    return split.netloc.lower() if split.scheme in ("http", "https") else None


def _host_name(host: str) -> str:
    """The host name in a Host header, without its port."""
    host = host.lower()
    if host.startswith("["):
        return host[1 : host.find("]")] if "]" in host else ""
    name, _, port = host.partition(":")
    return name if not port or port.isdigit() else ""


def token_text(headers: Mapping[str, str]) -> str:
    """The bearer token of a request."""
    scheme, _, text = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not text:
        raise HttpRefusal(
            "this route needs a token.",
            fix="Send 'Authorization: Bearer bur_...'; 'bursar token create' makes one.",
            code="no-token",
            headers={"WWW-Authenticate": "Bearer"},
        )
    return text.strip()


class AnonymousLimit:
    """Limits failed requests by address. Requests with a valid token are never limited."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._failures: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def count(self, address: str) -> bool:
        """Counts one more failure; returns whether the limit is exceeded."""
        now = self._monotonic()
        failures, at = self._failures.pop(address, (0.0, now))
        failures = max(0.0, failures - (now - at) * BAD_TOKENS_PER_SECOND) + 1.0
        self._failures[address] = (min(failures, BAD_TOKEN_BURST + 1.0), now)
        while len(self._failures) > MAX_ADDRESSES:
            self._failures.popitem(last=False)
        return failures > BAD_TOKEN_BURST


def bad_token() -> HttpRefusal:
    """The same error for unknown, expired and revoked tokens: which it is stays secret."""
    return HttpRefusal(
        "the token is not valid: unknown, expired or revoked.",
        fix="Ask a lead or an admin of your tenant for a new one.",
        code="bad-token",
        headers={"WWW-Authenticate": 'Bearer error="invalid_token"'},
    )


def too_many_bad_tokens() -> HttpRefusal:
    seconds = max(1, round(1 / BAD_TOKENS_PER_SECOND))
    return HttpRefusal(
        f"more than {BAD_TOKEN_BURST} invalid tokens came from your address.",
        fix=f"Wait {seconds} s, and send a valid token.",
        code="too-many-bad-tokens",
        headers={"Retry-After": str(seconds)},
    )
