"""What stands before every route: the host it was asked for, the site it came from, the token it shows.

Browsers are the danger on a loopback address: a page from anywhere can make one send requests there, and
can make its own name resolve to it. Hence the list of names and the check of every verb that changes
something, whatever the route does with it.
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
SAME_SITE: Final = frozenset({"same-origin", "none"})

DECIDING_HEADERS: Final = frozenset(
    {"host", "origin", "sec-fetch-site", "authorization", "content-type", "content-encoding"}
    | {"content-length", "idempotency-key", "last-event-id"}
)

BAD_TOKENS_AT_ONCE: Final = 10
BAD_TOKENS_PER_SECOND: Final = 1.0
ADDRESSES_REMEMBERED: Final = 1_024


class Authenticator(Protocol):
    """Whoever can say whose a token is. ``TokenCache`` is the one there is; OIDC would be another."""

    @property
    def should_refresh(self) -> bool: ...

    @property
    def is_stale(self) -> bool: ...

    @property
    def may_miss_new_tokens(self) -> bool: ...

    def refresh(self) -> None: ...

    def verify(self, text: str) -> Identity | None: ...


def check_bind(host: str, allow_remote: bool) -> None:
    """Refuse an address that others can reach unless that was asked for in so many words.

    Tokens are needed on every address. They are sent in the clear, though: beyond this machine a
    proxy with TLS belongs in front.
    """
    if is_loopback(host) or allow_remote:
        return
    raise UserError(
        f"{host!r} can be reached from other machines.",
        fix=(
            "Bind 127.0.0.1, or say --allow-remote if that is meant; "
            "then put a proxy with TLS in front, for tokens are sent as they are."
        ),
        code="remote-bind",
    )


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine alone. A name other than localhost could be anything."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name. One that we decide by may not stand twice: two readers would choose differently."""
    found: dict[str, str] = {}
    for name_bytes, value in raw:
        name = name_bytes.decode("latin-1")
        if name in found:
            if name in DECIDING_HEADERS:
                raise HttpRefusal(
                    f"the header {name!r} stands twice.", fix="Send it once.", code="bad-request"
                )
            continue
        found[name] = value.decode("latin-1")
    return found


class HostList:
    """The names the server answers to."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = LOOPBACK_NAMES | {name.lower().strip("[]") for name in names}

    def check(self, headers: Mapping[str, str], method: str) -> None:
        """Refuse a request for another name, or one that another site makes a browser send."""
        host = headers.get("host", "")
        if _name_of(host) not in self._names:
            raise HttpRefusal(
                f"the server does not answer to the name {host[:80]!r}.",
                fix="Use 127.0.0.1, or have the name added to the server's allowed hosts.",
                code="wrong-host",
            )
        if method not in SAFE_METHODS:
            _check_site(headers, host)


def _check_site(headers: Mapping[str, str], host: str) -> None:
    site = headers.get("sec-fetch-site")
    origin = headers.get("origin")
    foreign = site is not None and site not in SAME_SITE
    if origin is not None and not foreign:
        foreign = _authority_of(origin) != host.lower()
    if foreign:
        raise HttpRefusal(
            f"a page of {(origin or 'another site')[:80]!r} may not change anything here.",
            fix="Send the request from the command line, or from the server's own pages.",
            code="cross-site",
        )


def _authority_of(origin: str) -> str | None:
    try:
        split = urlsplit(origin)
    except ValueError:
        return None
    return split.netloc.lower() if split.scheme in ("http", "https") else None


def _name_of(host: str) -> str:
    """The name in a Host header, without its port."""
    host = host.lower()
    if host.startswith("["):
        return host[1 : host.find("]")] if "]" in host else ""
    name, _, port = host.partition(":")
    return name if not port or port.isdigit() else ""


def token_text(headers: Mapping[str, str]) -> str:
    """The token that a request shows."""
    given = headers.get("authorization", "")
    scheme, _, text = given.partition(" ")
    if scheme.lower() != "bearer" or not text:
        raise HttpRefusal(
            "this route needs a token.",
            fix="Send 'Authorization: Bearer bur_...'; bursar token create makes one.",
            code="no-token",
            headers={"WWW-Authenticate": "Bearer"},
        )
    return text.strip()


class AnonymousLimit:
    """How often an address may be wrong. Who shows a right token is never slowed by others' wrong ones."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._spent: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def is_over(self, address: str) -> bool:
        """Count one more; whether that is too many for now."""
        now = self._monotonic()
        spent, at = self._spent.pop(address, (0.0, now))
        spent = max(0.0, spent - (now - at) * BAD_TOKENS_PER_SECOND) + 1.0
        is_over = spent > BAD_TOKENS_AT_ONCE
        self._spent[address] = (min(spent, BAD_TOKENS_AT_ONCE + 1.0), now)
        while len(self._spent) > ADDRESSES_REMEMBERED:
            self._spent.popitem(last=False)
        return is_over


def bad_token() -> HttpRefusal:
    """One answer for unknown, wrong, expired and revoked: what is wrong is nobody's business."""
    return HttpRefusal(
        "the token is not valid: unknown, expired or revoked.",
        fix="Ask a lead or an admin of your tenant for a new one.",
        code="bad-token",
        headers={"WWW-Authenticate": 'Bearer error="invalid_token"'},
    )


def too_many_bad_tokens() -> HttpRefusal:
    seconds = max(1, round(1 / BAD_TOKENS_PER_SECOND))
    return HttpRefusal(
        f"more than {BAD_TOKENS_AT_ONCE} bad tokens came from your address.",
        fix=f"Wait {seconds} s, and send a valid token.",
        code="too-many-bad-tokens",
        headers={"Retry-After": str(seconds)},
    )
