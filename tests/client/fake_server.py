"""A fake server with replies set by the test; it records all requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class RecordedRequest:
    """A request that the fake server received."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """A reply. ``body`` is JSON unless it is bytes; ``disconnect`` closes without a response."""

    body: object = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    disconnect: bool = False


ReplySource = Reply | Callable[[RecordedRequest], Reply]


def problem(status: int, code: str, detail: str = "no.", **more: object) -> Reply:
    body = {
        "type": f"urn:bursar:problem:{code}",
        "title": "No",
        "status": status,
        "detail": detail,
        "code": code,
        "fix": "write yes.",
        "request_id": "r-1",
        **more,
    }
    return Reply(body, status, {"Content-Type": "application/problem+json"})


class FakeServer:
    """Sends ``replies`` by method and path: one after another, the last one repeatedly.

    ``by_prefix`` takes precedence for all paths with a prefix.
    """

    def __init__(self) -> None:
        self.replies: dict[tuple[str, str], list[ReplySource]] = {}
        self.by_prefix: dict[str, Callable[[RecordedRequest], Reply]] = {}
        self.requests: list[RecordedRequest] = []
        self.connections = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler_class())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def address(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def on(self, method: str, path: str, *replies: ReplySource) -> None:
        self.replies[method, path] = list(replies)

    def paths(self) -> list[str]:
        return [f"{one.method} {one.path}" for one in self.requests]

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def reply_to(self, request: RecordedRequest) -> Reply:
        self.requests.append(request)
        for prefix, make_reply in self.by_prefix.items():
            if request.path.startswith(prefix):
                return make_reply(request)
        replies = self.replies.get((request.method, request.path))
        if replies is None:
            return problem(404, "no-such-route", f"there is no {request.path}.")
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        return reply(request) if callable(reply) else reply

    def _handler_class(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class ScriptedReplies(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                server.connections += 1
                super().setup()

            def respond(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                parts = urlsplit(self.path)
                request = RecordedRequest(
                    self.command,
                    parts.path,
                    parse_qs(parts.query),
                    {name.lower(): value for name, value in self.headers.items()},
                    self.rfile.read(length),
                )
                reply = server.reply_to(request)
                if reply.disconnect:
                    self.close_connection = True
                    return
                body = (
                    reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                )
                self.send_response(reply.status)
                for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_HEAD = respond  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Prints nothing."""

        return ScriptedReplies


@contextmanager
def run_fake_server() -> Iterator[FakeServer]:
    server = FakeServer()
    server.start()
    try:
        yield server
    finally:
        server.stop()


def event_stream(*events: object) -> bytes:
    """Server-sent events with a heartbeat before each."""
    return b"".join(b": alive\n\ndata: " + json.dumps(event).encode() + b"\n\n" for event in events)
