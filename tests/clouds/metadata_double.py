"""A fake metadata server on loopback that records its requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    status: int = 200
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Double:
    """The server; ``answer`` returns the reply to each request."""

    answer: Callable[[Asked], Reply]
    asked: list[Asked] = field(default_factory=list)
    address: str = ""

    def paths(self) -> list[str]:
        return [f"{one.method} {one.path}" for one in self.asked]


@contextmanager
def metadata_double(answer: Callable[[Asked], Reply]) -> Iterator[Double]:
    double = Double(answer)

    class Reception(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            asked = Asked(
                method=self.command,
                path=self.path,
                headers={name.lower(): value for name, value in self.headers.items()},
                body=self.rfile.read(length),
            )
            double.asked.append(asked)
            reply = double.answer(asked)
            content = reply.body.encode()
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    for verb in ("GET", "PUT", "POST"):
        setattr(Reception, f"do_{verb}", Reception._serve)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Reception)
    double.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield double
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
