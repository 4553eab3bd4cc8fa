"""Messages over real sockets on loopback, and a file that keeps its secrets."""

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
def hook(*statuses: int) -> Iterator[tuple[str, list[tuple[dict[str, str], dict[str, object]]]]]:
    """A webhook that answers so, in turn; the last one again and again."""
    got: list[tuple[dict[str, str], dict[str, object]]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            got.append((dict(self.headers.items()), body))
            self.send_response(statuses[min(len(got), len(statuses)) - 1])
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/{SECRET}", got
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_slack_gets_text_in_which_nothing_can_be_mentioned() -> None:
    with hook(200) as (url, got):
        HttpChannel(Channel(name="ops", kind=ChannelKind.SLACK, url=url)).send(MESSAGE)
    ((_, body),) = got
    assert body == {
        "text": ":x: *train &lt;!channel&gt; (j-a) failed*\nAttempt 1 ended &amp; no retry is left."
    }


def test_a_webhook_gets_the_message_and_its_own_headers() -> None:
    with hook(204) as (url, got):
        channel = Channel(
            name="w",
            kind=ChannelKind.WEBHOOK,
            url=url,
            headers={"Authorization": f"Bearer {SECRET}"},
        )
        HttpChannel(channel).send(MESSAGE)
    ((headers, body),) = got
    assert headers["Authorization"] == f"Bearer {SECRET}"
    assert (body["occasion"], body["job_id"], body["sequence"]) == ("failed", "j-a", 7)


@pytest.mark.parametrize(
    ("status", "again"), [(500, True), (429, True), (404, False), (400, False), (302, False)]
)
def test_trouble_says_whether_to_try_again_and_keeps_the_address(status: int, again: bool) -> None:
    with (
        hook(status) as (url, got),
        pytest.raises(EngineFault, match=f"answered {status}") as fault,
    ):
        HttpChannel(Channel(name="w", kind=ChannelKind.WEBHOOK, url=url)).send(MESSAGE)
    assert bool(fault.value.retry_after_seconds) is again
    assert SECRET not in str(fault.value)
    assert len(got) == 1, "a redirect is not followed"


def test_nobody_there() -> None:
    channel = Channel(name="w", kind=ChannelKind.SLACK, url=f"http://127.0.0.1:1/{SECRET}")
    with pytest.raises(EngineFault, match="cannot be reached: Connection refused") as fault:
        HttpChannel(channel).send(MESSAGE)
    assert SECRET not in str(fault.value) + repr(channel)


class Mailbox(socketserver.StreamRequestHandler):
    """As much of a mail server as a client can be made to speak to."""

    got: ClassVar[list[str]] = []
    refuse = False

    def handle(self) -> None:
        self._say("220 here")
        for line in self.rfile:
            word = line.decode().split()[0].upper() if line.split() else ""
            if word == "EHLO":
                self._say("250 here")
            elif word == "RCPT" and type(self).refuse:
                self._say("550 nobody of that name")
            elif word == "DATA":
                self._say("354 go on")
                self._take()
            elif word == "QUIT":
                self._say("221 bye")
                return
            else:
                self._say("250 ok")

    def _take(self) -> None:
        lines = []
        for line in self.rfile:
            if line.rstrip() == b".":
                break
            lines.append(line.decode())
        type(self).got.append("".join(lines))
        self._say("250 taken")

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@contextmanager
def mailbox(refuse: bool) -> Iterator[tuple[int, list[str]]]:
    kind = type("Box", (Mailbox,), {"got": [], "refuse": refuse})
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1], kind.got
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


def test_a_mail() -> None:
    with mailbox(refuse=False) as (port, got):
        mail_to(port).send(MESSAGE)
    (mail,) = got
    assert "Subject: [bursar] train <!channel> (j-a) failed" in mail
    assert "no retry is left" in mail


def test_a_mail_that_nobody_takes() -> None:
    with mailbox(refuse=True) as (port, got), pytest.raises(EngineFault) as fault:
        mail_to(port).send(MESSAGE)
    assert got == []
    assert fault.value.retry_after_seconds != 1.0


# -- the file ------------------------------------------------------------------------------------------

FILE = """
channels:
  ops: {kind: slack, url: $HOOK, when: [failed], tenants: [vision]}
  mail: {kind: email, server: m.example.com, from: b@example.com, to: [a@example.com], password: "@pw"}
"""


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "notify.yaml"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_secrets_come_from_the_environment_and_from_files(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text(f"{SECRET}\n")
    path = written(tmp_path, FILE, 0o644)
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
def test_a_file_that_is_written_wrongly(tmp_path: Path, text: str, code: str) -> None:
    with pytest.raises(UserError) as refused:
        read_channels(written(tmp_path, text), {})
    assert refused.value.code == code
    assert SECRET not in str(refused.value)


def test_a_file_with_secrets_is_for_its_owner_alone(tmp_path: Path) -> None:
    text = "channels: {a: {kind: slack, url: https://x/s3cr3t-canary}}"
    assert len(read_channels(written(tmp_path, text))) == 1
    with pytest.raises(UserError, match="other users can read it"):
        read_channels(written(tmp_path, text, 0o644))
    assert read_channels(written(tmp_path, "")) == ()
