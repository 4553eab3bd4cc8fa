"""Webhook channels: messages are POSTed to a URL.

The URL is a secret and appears in no error message.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.client import HTTPException
from urllib.parse import urlsplit

from bursar.model.errors import EngineFault
from bursar.model.notification import Channel, ChannelKind, Notification

TIMEOUT_SECONDS = 10.0
EMOJI = {
    "preempted": ":warning:",
    "recovered": ":white_check_mark:",
    "failed": ":x:",
    "budget": ":moneybag:",
}
NO_RETRY = 0.0


def _new_opener() -> urllib.request.OpenerDirector:
    """An opener without redirects and proxies: only the configured URL is contacted."""
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
    """Sends messages to a webhook. An ``EngineFault`` with a delay of 0 s must not be retried."""

    def __init__(self, channel: Channel) -> None:
        self.name = channel.name
        self._channel = channel
        self._open = _new_opener().open

    def send(self, message: Notification) -> None:
        """Sends the message once; raises unless the server accepted it."""
        body = json.dumps(self._body(message), ensure_ascii=False).encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "bursar",
            **self._channel.headers,
        }
        request = urllib.request.Request(self._channel.url, body, headers, method="POST")
        host = urlsplit(self._channel.url).hostname or "the URL"
        try:
            with self._open(request, timeout=TIMEOUT_SECONDS) as response:
                response.read(1_024)
        except urllib.error.HTTPError as error:
            with error:
                fault = _http_fault(host, error)
            raise fault from None
        except (OSError, HTTPException) as error:
            raise EngineFault(
                f"{host} cannot be reached: {_error_text(error)}", retry_after_seconds=1.0
            ) from None

    def _body(self, message: Notification) -> dict[str, object]:
        if self._channel.kind is ChannelKind.SLACK:
            emoji = EMOJI[message.occasion.value]
            return {"text": f"{emoji} *{_escape(message.title)}*\n{_escape(message.text)}"}
        return {
            "occasion": message.occasion.value,
            "at_ms": message.at_ms,
            "tenant": message.tenant,
            "title": message.title,
            "text": message.text,
            "job_id": message.job_id,
            "sequence": message.sequence,
        }


def _http_fault(host: str, error: urllib.error.HTTPError) -> EngineFault:
    retry_after = error.headers.get("Retry-After", "") if error.headers else ""
    delay_seconds = float(retry_after) if retry_after.isdigit() else 1.0
    may_retry = error.code in (408, 429) or error.code >= 500
    return EngineFault(
        f"{host} answered {error.code}",
        retry_after_seconds=delay_seconds if may_retry else NO_RETRY,
    )


def _escape(text: str) -> str:
    """Escapes Slack's control characters, so that a job name cannot mention a channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _error_text(error: BaseException) -> str:
    """The error's type or system text; the library's own message may contain the URL."""
    inner = getattr(error, "reason", error)
    return str(getattr(inner, "strerror", "") or type(inner).__name__)
