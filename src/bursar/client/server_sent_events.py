"""Server-sent events, as the standard says they are read."""

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
    """Events as they come. A comment only shows that the server lives; what is half sent is dropped."""
    kind, last_id = "message", ""
    held: list[str] = []
    for raw in lines:
        line = raw.decode("utf-8", errors="replace").rstrip("\r\n")
        if not line:
            if held:
                yield ServerEvent(kind, last_id, _value("\n".join(held)))
            kind, held = "message", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            held.append(value)
        elif name == "event":
            kind = value
        elif name == "id":
            last_id = value


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
