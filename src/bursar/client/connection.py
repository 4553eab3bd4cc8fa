"""One kept-alive connection to one server, by the standard library alone.

A request that may be repeated without harm (reads, uploads named by their content, and whatever
carries an idempotency key) is tried again when the connection breaks or the server answers 503. Any
other is tried again only when it certainly never arrived. ``http.client`` takes longer to load than all the
rest of the client, so it is loaded by the first question.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from bursar import __version__
from bursar.api.wire.jobs import JSON, PROBLEM, REQUEST_ID_HEADER
from bursar.client.address import Address, read_address
from bursar.client.errors import Invalid, Refused, ServerFailed, TimedOut, Unreachable, refusal

if TYPE_CHECKING:
    import http.client

FIRST_WAIT_SECONDS: Final = 0.1
LONGEST_WAIT_SECONDS: Final = 5.0
MOST_ANSWER_BYTES: Final = 256 * 1024 * 1024
UNAVAILABLE: Final = 503


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One question to the server. ``repeatable`` says that asking twice is the same as once."""

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    timeout_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """What came back, whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> object:
        """The body as JSON, or a refusal that says that it is none."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise ServerFailed(
                f"the server answered {self.status} with something that is not JSON.",
                fix="Check that BURSAR_SERVER is the address of a Bursar server.",
                code="not-json",
                status=self.status,
            ) from error


class Connection:
    """Not for use by two threads at once: each takes its own."""

    def __init__(
        self,
        address: Address,
        token: str,
        *,
        timeout_seconds: float = 30.0,
        patience_seconds: float = 10.0,
    ) -> None:
        self._open: http.client.HTTPConnection | None = None
        self.address = address
        self.timeout_seconds = timeout_seconds
        self.patience_seconds = patience_seconds
        self._token = token
        self._sleep: Callable[[float], None] = time.sleep

    def ask(self, request: HttpRequest) -> HttpResponse:
        """Send, read all of the answer, and raise what the server refuses."""
        import http.client

        response = self._send_until_taken(request)
        try:
            body = response.read(MOST_ANSWER_BYTES)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._unreachable(error) from error
        return HttpResponse(status=response.status, headers=_headers(response), body=body)

    def stream(self, request: HttpRequest) -> Iterator[bytes]:
        """The lines of an answer that goes on and on. Ends when the server ends it.

        It has a connection of its own, so that other questions can be asked meanwhile.
        """
        import http.client

        own = Connection(
            self.address,
            self._token,
            timeout_seconds=self.timeout_seconds,
            patience_seconds=self.patience_seconds,
        )
        try:
            response = own._send_until_taken(request)
            while True:
                line = response.readline()
                if not line:
                    return
                yield line
        except TimeoutError as error:
            raise self._timed_out() from error
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            own.close()

    def close(self) -> None:
        """Let go of the connection; the next question opens another."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def __del__(self) -> None:
        """Jobs hold their client, and nobody closes a job."""
        self.close()

    def _send_until_taken(self, request: HttpRequest) -> http.client.HTTPResponse:
        import http.client

        give_up_at = time.monotonic() + self.patience_seconds
        for number in itertools.count(1):
            kept = self._open is not None
            try:
                response = self._send(request)
            except TimeoutError as error:
                self.close()
                raise self._timed_out() from error
            except (OSError, http.client.HTTPException) as error:
                self.close()
                failed: Refused = self._unreachable(error)
                if not request.repeatable and not isinstance(error, ConnectionRefusedError):
                    raise failed from error
                wait = 0.0 if kept else _backoff(number)
            else:
                if response.status < 400:
                    return response
                failed = refused_by(response)
                if response.status != UNAVAILABLE or not request.repeatable:
                    raise failed
                wait = self._wait_or_move(response, failed, number)
            if time.monotonic() + wait > give_up_at:
                raise failed
            self._sleep(wait)
        raise AssertionError("itertools.count has no end")

    def _send(self, request: HttpRequest) -> http.client.HTTPResponse:
        if not request.repeatable:
            self.close()  # a kept connection may have died: then nobody knows whether this arrived
        if self._open is None:
            self._open = self._connect(request.timeout_seconds or self.timeout_seconds)
        headers = {
            "Authorization": f"Bearer {self._token}",
            "User-Agent": f"bursar-client/{__version__}",
            "Accept": f"{JSON}, {PROBLEM}",
            **request.headers,
        }
        if not self._token:
            del headers["Authorization"]
        path = f"{self.address.prefix}{request.path}"
        self._open.request(request.method, path, body=request.body, headers=headers)
        return self._open.getresponse()

    def _connect(self, timeout_seconds: float) -> http.client.HTTPConnection:
        import http.client

        host, port = self.address.host, self.address.port
        if self.address.scheme == "https":
            import ssl

            return http.client.HTTPSConnection(
                host, port, timeout=timeout_seconds, context=ssl.create_default_context()
            )
        return http.client.HTTPConnection(host, port, timeout=timeout_seconds)

    def _wait_or_move(
        self, response: http.client.HTTPResponse, failed: Refused, number: int
    ) -> float:
        """How long to wait; when another process leads, the next try goes to it."""
        moved = self._leader(failed.leader) if number == 1 else None
        if moved is None:
            return _retry_after(response) or _backoff(number)
        self.close()
        self.address = moved
        return 0.0

    def _leader(self, named: str) -> Address | None:
        """Where the leader answers, if we may go there: never from TLS to plain text with our token, and
        never to this machine on the word of another."""
        try:
            moved = read_address(named) if named else None
        except Invalid:
            return None
        if moved is None or (self.address.scheme == "https" and moved.scheme != "https"):
            return None
        if moved.is_local and not self.address.is_local:
            return None
        return replace(moved, prefix=self.address.prefix)

    def _unreachable(self, error: Exception) -> Unreachable:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        fix = "Is the address right (BURSAR_SERVER, --server), and is the server up?"
        if self.address.is_local:
            fix = "Start it with 'bursar up', or set BURSAR_SERVER to where it runs."
        return Unreachable(
            f"no server answers at {self.address}: {why}.", fix=fix, code="server-unreachable"
        )

    def _timed_out(self) -> TimedOut:
        return TimedOut(
            f"{self.address} took longer than {self.timeout_seconds:g} s to answer.",
            fix="Try again; 'bursar doctor' says whether the server is well.",
            code="server-too-slow",
        )


def refused_by(response: http.client.HTTPResponse) -> Refused:
    """What an answer of 400 or more says."""
    told = _problem(response.read())
    return refusal(response.status, told, response.headers.get(REQUEST_ID_HEADER, ""))


def _problem(body: bytes) -> Mapping[str, object]:
    try:
        told = json.loads(body)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _headers(response: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}


def _retry_after(response: http.client.HTTPResponse) -> float | None:
    try:
        told = float(response.headers.get("Retry-After", ""))
    except ValueError:
        return None
    return min(max(told, 0.0), LONGEST_WAIT_SECONDS)


def _backoff(number: int) -> float:
    """Twice as long each time, with chance in it, so that many clients do not come back together."""
    longest = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0**number)
    return longest * (256 + os.urandom(1)[0]) / 512
