"""One keep-alive HTTP connection with retries, with the standard library only.

An idempotent request (a read, an upload, or one with an idempotency key) is retried when the connection
breaks or the server responds with 503. Any other is retried only if it certainly did not arrive.
``http.client`` takes longer to import than the rest of the client, so the first request imports it.
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

FIRST_BACKOFF_SECONDS: Final = 0.1
MAX_BACKOFF_SECONDS: Final = 5.0
MAX_RESPONSE_BYTES: Final = 256 * 1024 * 1024
UNAVAILABLE: Final = 503


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request. ``repeatable`` means that it is idempotent."""

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    timeout_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """A complete response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> object:
        """Parses the body as JSON."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise ServerFailed(
                f"the server responded with status {self.status} and a body that is not JSON.",
                fix="Check that BURSAR_SERVER is the address of a Bursar server.",
                code="not-json",
                status=self.status,
            ) from error


class Connection:
    """A connection to one server. Not thread-safe: use one for each thread."""

    def __init__(
        self,
        address: Address,
        token: str,
        *,
        timeout_seconds: float = 30.0,
        retry_seconds: float = 10.0,
    ) -> None:
        self._open: http.client.HTTPConnection | None = None
        self.address = address
        self.timeout_seconds = timeout_seconds
        self.retry_seconds = retry_seconds
        self._token = token
        self._sleep: Callable[[float], None] = time.sleep

    def send(self, request: HttpRequest) -> HttpResponse:
        """Sends a request and returns the complete response; raises errors of the server."""
        import http.client

        response = self._send_with_retries(request)
        try:
            body = response.read(MAX_RESPONSE_BYTES)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._unreachable(error) from error
        headers = {name.lower(): value for name, value in response.getheaders()}
        return HttpResponse(status=response.status, headers=headers, body=body)

    def stream(self, request: HttpRequest) -> Iterator[bytes]:
        """The lines of a streamed response, until the server ends it.

        It uses a separate connection, so that other requests can be sent meanwhile.
        """
        import http.client

        own = Connection(
            self.address,
            self._token,
            timeout_seconds=self.timeout_seconds,
            retry_seconds=self.retry_seconds,
        )
        try:
            response = own._send_with_retries(request)
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
        """Closes the connection; the next request opens another."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def __del__(self) -> None:
        """Closes the connection of clients that only jobs refer to."""
        self.close()

    def _send_with_retries(self, request: HttpRequest) -> http.client.HTTPResponse:
        import http.client

        deadline = time.monotonic() + self.retry_seconds
        for number in itertools.count(1):
            is_reused = self._open is not None
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
                wait = 0.0 if is_reused else _backoff(number)
            else:
                if response.status < 400:
                    return response
                failed = refused_by(response)
                if response.status != UNAVAILABLE or not request.repeatable:
                    raise failed
                wait = self._wait_or_redirect(response, failed, number)
            if time.monotonic() + wait > deadline:
                raise failed
            self._sleep(wait)
        raise AssertionError("itertools.count has no end")

    def _send(self, request: HttpRequest) -> http.client.HTTPResponse:
        if not request.repeatable:
            self.close()  # on a reused connection that broke, it is unknown whether this arrived
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

    def _wait_or_redirect(
        self, response: http.client.HTTPResponse, failed: Refused, number: int
    ) -> float:
        """Seconds to wait; if another process is the leader, the next retry goes there at once."""
        leader = self._leader(failed.leader) if number == 1 else None
        if leader is None:
            return _retry_after(response) or _backoff(number)
        self.close()
        self.address = leader
        return 0.0

    def _leader(self, text: str) -> Address | None:
        """The leader's address, if it is safe: never from TLS to clear text, nor from remote to local."""
        try:
            leader = read_address(text) if text else None
        except Invalid:
            return None
        if leader is None or (self.address.scheme == "https" and leader.scheme != "https"):
            return None
        if leader.is_local and not self.address.is_local:
            return None
        return replace(leader, prefix=self.address.prefix)

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
            fix="Try again; 'bursar doctor' checks the server.",
            code="server-too-slow",
        )


def refused_by(response: http.client.HTTPResponse) -> Refused:
    """The error of a response with a status of 400 or more."""
    try:
        problem = json.loads(response.read())
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    return refusal(response.status, problem, response.headers.get(REQUEST_ID_HEADER, ""))


def _retry_after(response: http.client.HTTPResponse) -> float | None:
    try:
        seconds = float(response.headers.get("Retry-After", ""))
    except ValueError:
        return None
    return min(max(seconds, 0.0), MAX_BACKOFF_SECONDS)


def _backoff(number: int) -> float:
    """Exponential backoff with jitter."""
    longest = min(MAX_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0**number)
    return longest * (256 + os.urandom(1)[0]) / 512
