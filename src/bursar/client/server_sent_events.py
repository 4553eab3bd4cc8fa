"""Parses server-sent events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event. ``value`` is its JSON."""

    kind: str
    id: str
    value: Any


def read_events(lines: Iterable[bytes]) -> Iterator[ServerEvent]:
    """Events as they arrive. Comments (heartbeats) are skipped; an incomplete event is dropped."""
    kind, last_id = "message", ""
    data_lines: list[str] = []
    for raw in lines:
        line = raw.decode("utf-8", errors="replace").rstrip("\r\n")
        if not line:
            if data_lines:
                yield ServerEvent(kind, last_id, _value("\n".join(data_lines)))
            kind, data_lines = "message", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            data_lines.append(value)
        elif name == "event":
            kind = value
        elif name == "id":
            last_id = value


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
