"""A client that sends exactly what it is told to: no path is tidied, no header added."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

PATIENCE_SECONDS = 20


@dataclass(frozen=True)
class Told:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json["code"])

    @property
    def without_request_id(self) -> bytes:
        """The body, in which the request's id is the only thing that may differ."""
        plain = json.loads(self.body)
        assert plain["request_id"] == self.headers["bursar-request-id"]
        return self.body.replace(plain["request_id"].encode(), b"")


@dataclass(frozen=True)
class Asker:
    """Somebody with a token, or without one."""

    port: int
    token: str | None = None

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Told:
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        try:
            answer = self._send(connection, method, path, body, headers)
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Told(answer.status, found, answer.read())
        finally:
            connection.close()

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes | Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
    ) -> http.client.HTTPResponse:
        sent = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if isinstance(body, Mapping):
            sent["Content-Type"] = "application/json"
            body = json.dumps(body).encode()
        sent |= dict(headers or {})
        connection.putrequest(method, path, skip_host="Host" in sent, skip_accept_encoding=True)
        for name, value in sent.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        return connection.getresponse()

    def get(self, path: str, **headers: str) -> Told:
        return self.ask("GET", path, headers=headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Told:
        return self.ask("POST", path, body, {k.replace("_", "-"): v for k, v in headers.items()})

    def submit(self, queue: str, **more: Any) -> str:
        """A small job; its id."""
        told = self.post("/v1/jobs", job(queue, **more))
        assert told.status == 201, told.body
        return str(told.json["id"])

    @contextmanager
    def events(self, path: str, headers: Mapping[str, str] | None = None) -> Iterator[Events]:
        """A stream of server-sent events."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        try:
            answer = self._send(connection, "GET", path, None, headers)
            assert answer.status == 200, answer.read()
            assert answer.getheader("content-type", "").startswith("text/event-stream")
            yield Events(answer)
        finally:
            connection.close()


class Events:
    """Server-sent events, one by one."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self._answer = answer

    def next(self) -> dict[str, Any]:
        """The next event: its name under ``event``, its values under ``data``; comments are passed."""
        found: dict[str, Any] = {}
        while True:
            line = self._answer.readline().decode()
            if not line:
                return {"event": "(closed)"}
            line = line.rstrip("\n")
            if not line and "event" in found:
                return found
            name, _, value = line.partition(": ")
            if name in ("event", "id"):
                found[name] = value
            elif name == "data":
                found["data"] = json.loads(value)

    def line(self) -> str:
        """The next line as it was sent."""
        return self._answer.readline().decode()


def job(queue: str, **more: Any) -> dict[str, Any]:
    """A job document that asks for one GPU."""
    wanted = {"accelerators": "T4:1"}
    return {"name": "train", "queue": queue, "run": "true", "resources": wanted, **more}
