"""Channels that are an address to POST to. The address is a secret: no message ever has it in it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.client import HTTPException
from urllib.parse import urlsplit

from bursar.model.errors import EngineFault
from bursar.model.notification import Channel, ChannelKind, Notification

TIMEOUT_SECONDS = 10.0
MARKS = {
    "preempted": ":warning:",
    "recovered": ":white_check_mark:",
    "failed": ":x:",
    "budget": ":moneybag:",
}
NOT_WORTH_ANOTHER_TRY = 0.0


def _opener() -> urllib.request.OpenerDirector:
    """Without detours and proxies: what we have to say is for the address that was written down."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    return opener


class HttpChannel:
    """Says a message to a webhook. ``EngineFault`` says whether to try again: not when it waits 0 s."""

    def __init__(self, channel: Channel) -> None:
        self.name = channel.name
        self._channel = channel
        self._open = _opener().open

    def send(self, message: Notification) -> None:
        """Say it once, and be sure that it was taken."""
        body = json.dumps(self._body(message), ensure_ascii=False).encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "bursar",
            **self._channel.headers,
        }
        request = urllib.request.Request(self._channel.url, body, headers, method="POST")
        host = urlsplit(self._channel.url).hostname or "the address"
        try:
            with self._open(request, timeout=TIMEOUT_SECONDS) as answer:
                answer.read(1_024)
        except urllib.error.HTTPError as error:
            with error:
                fault = _refusal(host, error)
            raise fault from None
        except (OSError, HTTPException) as error:
            raise EngineFault(
                f"{host} cannot be reached: {_reason(error)}", retry_after_seconds=1.0
            ) from None

    def _body(self, message: Notification) -> dict[str, object]:
        if self._channel.kind is ChannelKind.SLACK:
            mark = MARKS[message.occasion.value]
            return {"text": f"{mark} *{_plain(message.title)}*\n{_plain(message.text)}"}
        return {
            "occasion": message.occasion.value,
            "at_ms": message.at_ms,
            "tenant": message.tenant,
            "title": message.title,
            "text": message.text,
            "job_id": message.job_id,
            "sequence": message.sequence,
        }


def _refusal(host: str, error: urllib.error.HTTPError) -> EngineFault:
    told = error.headers.get("Retry-After", "") if error.headers else ""
    pause = float(told) if told.isdigit() else 1.0
    again = error.code in (408, 429) or error.code >= 500
    return EngineFault(
        f"{host} answered {error.code}",
        retry_after_seconds=pause if again else NOT_WORTH_ANOTHER_TRY,
    )


def _plain(text: str) -> str:
    """Slack's three control characters, escaped: a job's name must not mention a whole channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _reason(error: BaseException) -> str:
    """The kind of trouble; what the library says may quote the address."""
    inner = getattr(error, "reason", error)
    return str(getattr(inner, "strerror", "") or type(inner).__name__)
