"""Virtual nodes that go and come back, as spot nodes do: announced, lost, and there again later.

Every node of this engine is this machine, so a node is taken away by ending what runs there and by saying
that it is gone. How far each outage has come is kept in a file: a control plane that is killed meanwhile
says the last thing again when it is back, and no node stays lost because nobody was there to say otherwise.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum

from bursar.model.engine_report import (
    EngineReport,
    NodeBackReported,
    NodeLostReported,
    NoticeReported,
)
from bursar.model.event import NoticeKind

FILE = "outages"
SOURCE = "chaos"
DYING_MS = 10_000
"""After so long a node is gone even if something on it does not want to die."""


class Phase(StrEnum):
    """How far an outage has come; each was said when it began, the last one perhaps in vain."""

    ANNOUNCED = "announced"
    DYING = "dying"
    GONE = "gone"
    BACK = "back"


@dataclass(slots=True, kw_only=True)
class PoolOutage:
    """One node's. It takes nothing new from the moment it dies until it is back."""

    node: str
    lost_at_ms: int
    back_at_ms: int
    phase: Phase

    @property
    def is_out(self) -> bool:
        return self.phase in (Phase.DYING, Phase.GONE)

    def said(self) -> EngineReport | None:
        """What was said when the present phase began."""
        match self.phase:
            case Phase.ANNOUNCED:
                return NoticeReported(
                    node=self.node,
                    source=SOURCE,
                    kind=NoticeKind.TERMINATE,
                    ends_at_ms=self.lost_at_ms,
                )
            case Phase.GONE:
                return NodeLostReported(node=self.node, at_ms=self.lost_at_ms, detail="taken away")
            case Phase.BACK:
                return NodeBackReported(node=self.node, at_ms=self.back_at_ms)
            case Phase.DYING:
                return None


class Outages:
    """Every outage that is not over, on disk and in memory. Used by one thread at a time."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, FILE)
        self._outages = {one.node: one for one in _read(self._path)}

    def again(self) -> list[EngineReport]:
        """What was said last of each node, for whoever may not have heard; then those that are over go."""
        found = [said for one in self._outages.values() if (said := one.said()) is not None]
        self._outages = {n: one for n, one in self._outages.items() if one.phase is not Phase.BACK}
        self._write()
        return found

    def begin(self, node: str, now_ms: int, notice_ms: int, absence_ms: int) -> EngineReport | None:
        """Take a node away after a notice; without one it dies at once. None if it is going already."""
        known = self._outages.get(node)
        if known is not None and known.phase is not Phase.BACK:
            return known.said()
        lost_at_ms = now_ms + notice_ms
        made = PoolOutage(
            node=node,
            lost_at_ms=lost_at_ms,
            back_at_ms=lost_at_ms + absence_ms,
            phase=Phase.ANNOUNCED if notice_ms > 0 else Phase.DYING,
        )
        self._outages[node] = made
        self._write()
        return made.said()

    def is_out(self, node: str) -> bool:
        return node in self._outages and self._outages[node].is_out

    @property
    def dying(self) -> list[str]:
        return sorted(n for n, one in self._outages.items() if one.phase is Phase.DYING)

    def go_on(self, now_ms: int, is_empty: Callable[[str], bool]) -> list[EngineReport]:
        """Let time pass. ``is_empty`` says whether nothing runs on a node any more."""
        said: list[EngineReport] = []
        moved = False
        for node in sorted(self._outages):
            one = self._outages[node]
            while (phase := _next_phase(one, now_ms, is_empty)) is not one.phase:
                one.phase, moved = phase, True
                if (report := one.said()) is not None:
                    said.append(report)
        if moved:
            self._write()
        return said

    def _write(self) -> None:
        """Durably: a node that is lost in the log must come back."""
        aside = f"{self._path}.{os.getpid()}"
        text = json.dumps([asdict(self._outages[node]) for node in sorted(self._outages)])
        fd = os.open(aside, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        try:
            os.write(fd, text.encode())
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(aside, self._path)


def _next_phase(one: PoolOutage, now_ms: int, is_empty: Callable[[str], bool]) -> Phase:
    match one.phase:
        case Phase.ANNOUNCED if now_ms >= one.lost_at_ms:
            return Phase.DYING
        case Phase.DYING if is_empty(one.node) or now_ms >= one.lost_at_ms + DYING_MS:
            return Phase.GONE
        case Phase.GONE if now_ms >= one.back_at_ms:
            return Phase.BACK
    return one.phase


def _read(path: str) -> Iterable[PoolOutage]:
    try:
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)
    except FileNotFoundError:
        return []
    return [PoolOutage(**{**one, "phase": Phase(one["phase"])}) for one in kept]
