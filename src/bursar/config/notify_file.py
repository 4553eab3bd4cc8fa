"""The channels for notifications, in a YAML file that only the operator may read.

Webhook addresses are secrets, so a value may be ``$NAME``, taken from the environment, or ``@file``,
the text of a file in the same folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bursar.config.yaml.key_tables import (
    BOOLEAN,
    LABEL,
    FileKey,
    KeyTable,
    ValueFormat,
    by_field,
    by_name,
    choice_of,
    described,
    list_of,
    read_mapping,
    read_mapping_or_null,
    require,
)
from bursar.config.yaml.value_readers import InvalidValue, subject_of, whole
from bursar.config.yaml.yaml_text import decode, read_yaml
from bursar.model.errors import UserError
from bursar.model.notification import Channel, ChannelKind, NotificationKind

CHANNEL = KeyTable(
    name="a channel",
    keys={
        "kind": FileKey("slack, webhook or email", choice_of(ChannelKind)),
        "when": FileKey(
            "the occasions: preempted, recovered, failed, budget; left out: all",
            list_of(choice_of(NotificationKind)),
            "on",
        ),
        "tenants": FileKey(
            "only for these tenants and those below them; left out: all", list_of(LABEL)
        ),
        "url": FileKey("the address of a slack channel or webhook; a secret", LABEL),
        "headers": FileKey("additional headers of a webhook, by name; secrets", by_name(LABEL)),
        "server": FileKey("the mail server", LABEL),
        "port": FileKey(
            "its port; left out: 587", ValueFormat(whole(1, 65_535), {"type": "integer"})
        ),
        "user": FileKey("the user to log in as; left out: no login", LABEL),
        "password": FileKey("the password; a secret", LABEL),
        "from": FileKey("the sender's address", LABEL, "sender"),
        "to": FileKey("a list of the recipients' addresses", list_of(LABEL)),
        "encrypted": FileKey(
            "whether to use STARTTLS; must be true unless the server is on this machine. "
            "Left out: true",
            BOOLEAN,
        ),
    },
    required=("kind",),
)
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
NAME_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")


def read_channels(path: Path, environment: Mapping[str, str] | None = None) -> tuple[Channel, ...]:
    """The channels of a file. No error message contains a secret."""
    try:
        text = decode(path.read_bytes(), path.name)
        mode = path.stat().st_mode
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror}.",
            fix="Check the path and its permissions.",
            code="no-notify-file",
        ) from error
    document = read_yaml(text, path.name)
    reader = _ChannelReader(path, os.environ if environment is None else environment)
    try:
        sections = read_mapping_or_null(document.value, reader.table())
    except InvalidValue as error:
        location = document.location(error.path, at_key=error.at_key)
        raise error.as_user_error(location, subject_of(error.path, "the file")) from None
    if reader.has_secrets and stat.S_IMODE(mode) & 0o077:
        raise UserError(
            f"{path} contains secrets and other users can read it.",
            fix=f"Run 'chmod 600 {path}', or write $NAME or @file instead of the secrets.",
            code="readable-by-others",
        )
    return tuple(
        Channel(name=name, **fields) for name, fields in sections.get("channels", {}).items()
    )


class _ChannelReader:
    def __init__(self, path: Path, environment: Mapping[str, str]) -> None:
        self._folder = path.parent
        self._environment = environment
        self.has_secrets = False

    def table(self) -> KeyTable:
        """The keys of the whole file."""
        channels = by_name(ValueFormat(self._channel, described(CHANNEL)))

        def read(value: Any) -> dict[str, Any]:
            by_channel: dict[str, Any] = channels.read(value)
            for name in by_channel:
                _check_name(name)
            return by_channel

        key = FileKey("the channels, by name", ValueFormat(read, channels.schema))
        return KeyTable(name="the file", keys={"channels": key})

    def _channel(self, value: Any) -> dict[str, Any]:
        """The fields of a channel, except its name."""
        values = read_mapping(value, CHANNEL)
        is_mail = values["kind"] is ChannelKind.EMAIL
        require(values, ("server", "from", "to") if is_mail else ("url",))
        if not values.get("encrypted", True) and values.get("server", "") not in LOOPBACK:
            problem = "is false, but the server is not on this machine"
            raise InvalidValue(problem, "Remove it.", "not-encrypted").inside("encrypted")
        for key in ("url", "password"):
            if key in values:
                values[key] = self._secret(values[key], key)
        if "url" in values:
            _check_address(values["url"])
        headers = values.get("headers", {})
        values["headers"] = {
            name: self._secret(text, "headers", name) for name, text in headers.items()
        }
        return by_field(values, CHANNEL)

    def _secret(self, text: str, *path: str) -> str:
        """The secret that a value is, or names."""
        if text.startswith("$"):
            if text[1:] not in self._environment:
                problem = f"names {text}, which is not set"
                fix = f"Set {text[1:]} before you start."
                raise InvalidValue(problem, fix, "missing-value").inside(*path)
            return self._environment[text[1:]]
        if text.startswith("@"):
            try:
                return (self._folder / text[1:]).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError):
                problem = f"names the file {text[1:]}, which cannot be read"
                fix = "Check its path and permissions."
                raise InvalidValue(problem, fix, "missing-value").inside(*path) from None
        self.has_secrets = True
        return text


def _check_name(name: str) -> None:
    if not name or not set(name) <= NAME_LETTERS or len(name) > 40:
        fix = "Use up to 40 of a-z, 0-9, - and _."
        problem = f"has the name {name[:40]!r}"
        raise InvalidValue(problem, fix, "wrong-value").inside(name)


def _check_address(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
        raise InvalidValue(
            "is not an https address",
            "Use https; http is allowed only for an address on this machine.",
            "not-encrypted",
        ).inside("url")
