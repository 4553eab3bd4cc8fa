"""Where people are told: a YAML file for the operator alone, because webhook addresses are secrets.

A value may be ``$NAME``, taken from the environment, or ``@file``, the text of a file beside this one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from bursar.config.yaml.located_value import LocatedValue, compose
from bursar.model.errors import UserError
from bursar.model.notification import Channel, ChannelKind, NotificationKind

NOTIFY = {"channels": "the channels, by name"}
CHANNEL = {
    "kind": "slack, webhook or email",
    "when": "on which occasions: preempted, recovered, failed, budget; left out: all",
    "tenants": "only of these tenants and what is below them; left out: all",
    "url": "the address of a slack channel or webhook; a secret",
    "headers": "further headers of a webhook, by name; secrets",
    "server": "the mail server",
    "port": "its port; left out: 587",
    "user": "whom to log in as; left out: nobody",
    "password": "his password; a secret",
    "from": "who the mail is from",
    "to": "a list of whom it is for",
    "encrypted": "whether by STARTTLS; only a server on this machine may do without. Left out: yes",
}
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
NAME_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")


def read_channels(path: Path, environment: Mapping[str, str] | None = None) -> tuple[Channel, ...]:
    """Every channel of a file, or what is wrong with it; no message has a secret in it."""
    try:
        text = path.read_text(encoding="utf-8")
        mode = path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8'}.",
            fix="Check the path and its permissions.",
            code="no-notify-file",
        ) from error
    whole = compose(text, path.name)
    reading = _Reading(path, os.environ if environment is None else environment)
    channels = whole.fields(NOTIFY).get("channels") if whole else None
    found = (
        tuple(reading.channel(name, one) for name, one in channels.named().items())
        if channels
        else ()
    )
    if reading.has_secrets and stat.S_IMODE(mode) & 0o077:
        raise UserError(
            f"{path} has secrets in it and can be read by others.",
            fix=f"Say 'chmod 600 {path}', or write $NAME or @file in their place.",
            code="readable-by-others",
        )
    return found


class _Reading:
    def __init__(self, path: Path, environment: Mapping[str, str]) -> None:
        self._folder = path.parent
        self._environment = environment
        self.has_secrets = False

    def channel(self, name: str, entry: LocatedValue) -> Channel:
        if not name or not set(name) <= NAME_LETTERS or len(name) > 40:
            raise entry.wrong(
                f"has the name {name[:40]!r}", "Use up to 40 of a-z, 0-9, - and _.", "wrong-value"
            )
        said = entry.fields(CHANNEL)
        if "kind" not in said:
            raise entry.wrong(
                "does not say 'kind'", "Write slack, webhook or email.", "missing-key"
            )
        kind = said["kind"].choice(ChannelKind)
        needed = ("server", "from", "to") if kind is ChannelKind.EMAIL else ("url",)
        for key in needed:
            if key not in said:
                raise entry.wrong(f"does not say {key!r}", f"Write '{key}: ...'.", "missing-key")
        return self._made(name, kind, said)

    def _made(self, name: str, kind: ChannelKind, said: dict[str, LocatedValue]) -> Channel:
        encrypted = said["encrypted"].flag() if "encrypted" in said else True
        server = said["server"].text() if "server" in said else ""
        if not encrypted and server not in LOOPBACK:
            raise said["encrypted"].wrong(
                "is false for a server elsewhere", "Leave it out.", "not-encrypted"
            )
        headers = said["headers"].named() if "headers" in said else {}
        return Channel(
            name=name,
            kind=kind,
            on=tuple(one.choice(NotificationKind) for one in said["when"].members())
            if "when" in said
            else tuple(NotificationKind),
            tenants=tuple(one.text() for one in said["tenants"].members())
            if "tenants" in said
            else (),
            url=self._address(said["url"]) if "url" in said else "",
            headers={key: self._secret(one) for key, one in headers.items()},
            server=server,
            port=said["port"].whole() if "port" in said else 587,
            user=said["user"].text() if "user" in said else "",
            password=self._secret(said["password"]) if "password" in said else "",
            sender=said["from"].text() if "from" in said else "",
            to=tuple(one.text() for one in said["to"].members()) if "to" in said else (),
            encrypted=encrypted,
        )

    def _address(self, entry: LocatedValue) -> str:
        url = self._secret(entry)
        parts = urlsplit(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
            raise entry.wrong(
                "is not an https address",
                "Only an address on this machine may be http.",
                "not-encrypted",
            )
        return url

    def _secret(self, entry: LocatedValue) -> str:
        text = entry.text()
        if text.startswith("$"):
            if text[1:] not in self._environment:
                raise entry.wrong(
                    f"names {text}, which is not set",
                    f"Set {text[1:]} before you start.",
                    "missing-value",
                )
            return self._environment[text[1:]]
        if text.startswith("@"):
            try:
                return (self._folder / text[1:]).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise entry.wrong(
                    f"names the file {text[1:]}, which cannot be read",
                    "Check its path and permissions.",
                    "missing-value",
                ) from error
        self.has_secrets = True
        return text
