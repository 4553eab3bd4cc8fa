"""A server of plain sockets that answers what a test tells it to, and remembers what it was asked."""

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
class Asked:
    """One request as it came."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Says:
    """One answer. ``body`` is JSON unless it is bytes; ``hang_up`` closes before a word is said."""

    body: object = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    hang_up: bool = False


Answer = Says | Callable[[Asked], Says]


def problem(status: int, code: str, detail: str = "no.", **more: object) -> Says:
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
    return Says(body, status, {"Content-Type": "application/problem+json"})


class FakeServer:
    """``answers`` by method and path: one, or a list of which the last is repeated.

    ``by_start`` answers every path that begins so.
    """

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str], list[Answer]] = {}
        self.by_start: dict[str, Callable[[Asked], Says]] = {}
        self.asked: list[Asked] = []
        self.connections = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._answering())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def address(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def on(self, method: str, path: str, *answers: Answer) -> None:
        self.answers[method, path] = list(answers)

    def paths(self) -> list[str]:
        return [f"{one.method} {one.path}" for one in self.asked]

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, asked: Asked) -> Says:
        self.asked.append(asked)
        for start, answer in self.by_start.items():
            if asked.path.startswith(start):
                return answer(asked)
        left = self.answers.get((asked.method, asked.path))
        if left is None:
            return problem(404, "no-such-route", f"there is no {asked.path}.")
        chosen = left.pop(0) if len(left) > 1 else left[0]
        return chosen(asked) if callable(chosen) else chosen

    def _answering(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Answering(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                server.connections += 1
                super().setup()

            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                parts = urlsplit(self.path)
                asked = Asked(
                    self.command,
                    parts.path,
                    parse_qs(parts.query),
                    {name.lower(): value for name, value in self.headers.items()},
                    self.rfile.read(length),
                )
                said = server.answer(asked)
                if said.hang_up:
                    self.close_connection = True
                    return
                body = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
                self.send_response(said.status)
                for name, value in {"Content-Type": "application/json", **said.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_HEAD = answer  # noqa: N815

            def log_message(self, *_: object) -> None:
                """A test's output is its own."""

        return Answering


@contextmanager
def running() -> Iterator[FakeServer]:
    server = FakeServer()
    server.start()
    try:
        yield server
    finally:
        server.stop()


def server_sent(*events: object) -> bytes:
    """Events as they go over the wire, with a sign of life between them."""
    return b"".join(b": alive\n\ndata: " + json.dumps(event).encode() + b"\n\n" for event in events)
