"""An HTTP client that sends requests unchanged: no path is normalised, no header added."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

TIMEOUT_SECONDS = 20


@dataclass(frozen=True)
class Response:
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
        """The body without the request id, which differs between identical responses."""
        request_id = self.json["request_id"]
        assert request_id == self.headers["bursar-request-id"]
        return self.body.replace(request_id.encode(), b"")


@dataclass(frozen=True)
class HttpClient:
    """A client of the API, with or without a token."""

    port: int
    token: str | None = None

    def request(
        self,
        method: str,
        path: str,
        body: bytes | Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Sends a request on a new connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_SECONDS)
        try:
            response = self._send(connection, method, path, body, headers)
            received = {name.lower(): value for name, value in response.getheaders()}
            return Response(response.status, received, response.read())
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

    def get(self, path: str, **headers: str) -> Response:
        return self.request("GET", path, headers=headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Response:
        return self.request(
            "POST", path, body, {k.replace("_", "-"): v for k, v in headers.items()}
        )

    def submit(self, queue: str, **more: Any) -> str:
        """Submits a small job and returns its id."""
        response = self.post("/v1/jobs", job(queue, **more))
        assert response.status == 201, response.body
        return str(response.json["id"])

    @contextmanager
    def events(self, path: str, headers: Mapping[str, str] | None = None) -> Iterator[EventStream]:
        """Opens a stream of server-sent events."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_SECONDS)
        try:
            response = self._send(connection, "GET", path, None, headers)
            assert response.status == 200, response.read()
            assert response.getheader("content-type", "").startswith("text/event-stream")
            yield EventStream(response)
        finally:
            connection.close()


class EventStream:
    """Reads server-sent events one by one."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response

    def next(self) -> dict[str, Any]:
        """Returns the next event with its ``event``, ``id`` and ``data``; skips comments."""
        event: dict[str, Any] = {}
        while True:
            line = self._response.readline().decode()
            if not line:
                return {"event": "(closed)"}
            line = line.rstrip("\n")
            if not line and "event" in event:
                return event
            name, _, value = line.partition(": ")
            if name in ("event", "id"):
                event[name] = value
            elif name == "data":
                event["data"] = json.loads(value)

    def line(self) -> str:
        """Returns the next line unparsed."""
        return self._response.readline().decode()


def job(queue: str, **more: Any) -> dict[str, Any]:
    """A job document that requests one GPU."""
    resources = {"accelerators": "T4:1"}
    return {"name": "train", "queue": queue, "run": "true", "resources": resources, **more}
