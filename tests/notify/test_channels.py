"""Channels send messages over loopback sockets; the notification file keeps its secrets."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from bursar.config.notify_file import read_channels
from bursar.model.errors import EngineFault, UserError
from bursar.model.notification import Channel, ChannelKind, Notification, NotificationKind
from bursar.notify.http_channel import HttpChannel
from bursar.notify.mail_channel import MailChannel

SECRET = "s3cr3t-canary"
MESSAGE = Notification(
    occasion=NotificationKind.FAILED,
    at_ms=1_700_000_000_000,
    tenant="vision",
    title="train <!channel> (j-a) failed",
    text="Attempt 1 ended & no retry is left.",
    job_id="j-a",
    sequence=7,
)


@contextmanager
def webhook(*statuses: int) -> Iterator[tuple[str, list[tuple[dict[str, str], dict[str, object]]]]]:
    """A webhook server that returns the statuses in turn and repeats the last one."""
    requests: list[tuple[dict[str, str], dict[str, object]]] = []

    class Webhook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append((dict(self.headers.items()), body))
            self.send_response(statuses[min(len(requests), len(statuses)) - 1])
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Webhook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/{SECRET}", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_text_sent_to_slack_is_escaped() -> None:
    with webhook(200) as (url, requests):
        HttpChannel(Channel(name="ops", kind=ChannelKind.SLACK, url=url)).send(MESSAGE)
    ((_, body),) = requests
    assert body == {
        "text": ":x: *train &lt;!channel&gt; (j-a) failed*\nAttempt 1 ended &amp; no retry is left."
    }


def test_a_webhook_receives_the_message_and_the_configured_headers() -> None:
    with webhook(204) as (url, requests):
        channel = Channel(
            name="w",
            kind=ChannelKind.WEBHOOK,
            url=url,
            headers={"Authorization": f"Bearer {SECRET}"},
        )
        HttpChannel(channel).send(MESSAGE)
    ((headers, body),) = requests
    assert headers["Authorization"] == f"Bearer {SECRET}"
    assert (body["occasion"], body["job_id"], body["sequence"]) == ("failed", "j-a", 7)


@pytest.mark.parametrize(
    ("status", "may_retry"), [(500, True), (429, True), (404, False), (400, False), (302, False)]
)
def test_http_errors_state_whether_to_retry_and_hide_the_url(status: int, may_retry: bool) -> None:
    with (
        webhook(status) as (url, requests),
        pytest.raises(EngineFault, match=f"answered {status}") as fault,
    ):
        HttpChannel(Channel(name="w", kind=ChannelKind.WEBHOOK, url=url)).send(MESSAGE)
    assert bool(fault.value.retry_after_seconds) is may_retry
    assert SECRET not in str(fault.value)
    assert len(requests) == 1, "a redirect is not followed"


def test_an_unreachable_webhook_is_reported_without_its_url() -> None:
    channel = Channel(name="w", kind=ChannelKind.SLACK, url=f"http://127.0.0.1:1/{SECRET}")
    with pytest.raises(EngineFault, match="cannot be reached: Connection refused") as fault:
        HttpChannel(channel).send(MESSAGE)
    assert SECRET not in str(fault.value) + repr(channel)


class Mailbox(socketserver.StreamRequestHandler):
    """A minimal SMTP server."""

    mails: ClassVar[list[str]] = []
    rejects = False

    def handle(self) -> None:
        self._reply("220 ready")
        for line in self.rfile:
            word = line.decode().split()[0].upper() if line.split() else ""
            if word == "EHLO":
                self._reply("250 ready")
            elif word == "RCPT" and type(self).rejects:
                self._reply("550 no such user")
            elif word == "DATA":
                self._reply("354 go on")
                self._receive_mail()
            elif word == "QUIT":
                self._reply("221 bye")
                return
            else:
                self._reply("250 ok")

    def _receive_mail(self) -> None:
        lines = []
        for line in self.rfile:
            if line.rstrip() == b".":
                break
            lines.append(line.decode())
        type(self).mails.append("".join(lines))
        self._reply("250 accepted")

    def _reply(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@contextmanager
def mailbox(rejects: bool) -> Iterator[tuple[int, list[str]]]:
    handler = type("Box", (Mailbox,), {"mails": [], "rejects": rejects})
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1], handler.mails
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def mail_to(port: int) -> MailChannel:
    return MailChannel(
        Channel(
            name="mail",
            kind=ChannelKind.EMAIL,
            server="127.0.0.1",
            port=port,
            sender="bursar@example.com",
            to=("a@example.com",),
            encrypted=False,
        )
    )


def test_a_mail_contains_title_and_text() -> None:
    with mailbox(rejects=False) as (port, mails):
        mail_to(port).send(MESSAGE)
    (mail,) = mails
    assert "Subject: [bursar] train <!channel> (j-a) failed" in mail
    assert "no retry is left" in mail


def test_a_mail_whose_recipients_are_rejected_raises_a_fault() -> None:
    with mailbox(rejects=True) as (port, mails), pytest.raises(EngineFault) as fault:
        mail_to(port).send(MESSAGE)
    assert mails == []
    assert fault.value.retry_after_seconds != 1.0


# -- notification file ------------------------------------------------------------------------------

FILE = """
channels:
  ops: {kind: slack, url: $HOOK, when: [failed], tenants: [vision]}
  mail: {kind: email, server: m.example.com, from: b@example.com, to: [a@example.com], password: "@pw"}
"""


def write_file(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "notify.yaml"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_secrets_are_read_from_the_environment_and_from_files(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text(f"{SECRET}\n")
    path = write_file(tmp_path, FILE, 0o644)
    ops, mail = read_channels(path, {"HOOK": f"https://h.example.com/{SECRET}"})
    assert (ops.on, ops.tenants, ops.url[-13:]) == ((NotificationKind.FAILED,), ("vision",), SECRET)
    assert (mail.password, mail.port, mail.to) == (SECRET, 587, ("a@example.com",))
    assert SECRET not in repr((ops, mail))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("channels: {a: {kind: slack}}", "missing-key"),
        ("channels: {a: {url: https://x}}", "missing-key"),
        ("channels: {a: {kind: pigeon, url: https://x}}", "unknown-choice"),
        ("channels: {a: {kind: slack, url: http://h.example.com/s3cr3t-canary}}", "not-encrypted"),
        ("channels: {a: {kind: slack, url: ftp://x}}", "not-encrypted"),
        ("channels: {a: {kind: slack, url: $NOT_SET}}", "missing-value"),
        ('channels: {a: {kind: slack, url: "@gone"}}', "missing-value"),
        ("channels: {a: {kind: slack, url: https://x, of: [failed]}}", "unknown-key"),
        ("channels: {../a: {kind: slack, url: https://x}}", "wrong-value"),
        (
            "channels: {a: {kind: email, server: m, from: b, to: [c], encrypted: false}}",
            "not-encrypted",
        ),
        ("chanels: {}", "unknown-key"),
    ],
)
def test_an_invalid_file_is_rejected_without_showing_secrets(
    tmp_path: Path, text: str, code: str
) -> None:
    with pytest.raises(UserError) as rejection:
        read_channels(write_file(tmp_path, text), {})
    assert rejection.value.code == code
    assert SECRET not in str(rejection.value)


def test_a_file_with_secrets_must_not_be_readable_by_others(tmp_path: Path) -> None:
    text = "channels: {a: {kind: slack, url: https://x/s3cr3t-canary}}"
    assert len(read_channels(write_file(tmp_path, text))) == 1
    with pytest.raises(UserError, match="other users can read it"):
        read_channels(write_file(tmp_path, text, 0o644))
    assert read_channels(write_file(tmp_path, "")) == ()
