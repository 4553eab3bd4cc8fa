"""A fake network that returns stored pages and records the requested URLs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bursar.model.errors import EngineFault

NOW_MS = 1_787_000_000_000


@dataclass
class StillClock:
    at_ms: int = NOW_MS

    def now_ms(self) -> int:
        return self.at_ms


@dataclass
class Answers:
    """Pages by a part of their URL; other URLs are unreachable."""

    pages: Mapping[str, Any]
    asked: list[str] = field(default_factory=list)

    def __call__(self, url: str) -> bytes:
        self.asked.append(url)
        for piece, page in self.pages.items():
            if piece in url:
                return page if isinstance(page, bytes) else json.dumps(page).encode()
        raise EngineFault(f"nothing at {url}", retry_after_seconds=1)
