"""Outages of virtual nodes, as spot nodes have them: announced, lost, back later.

Every node of this engine is this machine, so an outage kills what runs on the node and reports the node
lost. The phase of each outage is stored in a file: after a restart the last report is sent again, and no
node stays lost because the control plane was killed meanwhile.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum

from bursar.engines.local.supervisor.attempt_folder import write_atomically
from bursar.model.engine_report import EngineReport, NoticeReported
from bursar.model.event import NodeLost, NodeRestored, NoticeKind

FILE = "outages"
SOURCE = "chaos"
TERMINATE_TIMEOUT_MS = 10_000
"""After this time a node is lost even if a process on it is still running."""


class Phase(StrEnum):
    """Phase of an outage. Each is reported when it begins; the last report may have been lost."""

    ANNOUNCED = "announced"
    TERMINATING = "terminating"
    LOST = "lost"
    BACK = "back"


@dataclass(slots=True, kw_only=True)
class VirtualOutage:
    """Outage of one node. From its termination until it is back, the node accepts no task."""

    node: str
    lost_at_ms: int
    back_at_ms: int
    phase: Phase

    @property
    def is_out(self) -> bool:
        return self.phase in (Phase.TERMINATING, Phase.LOST)

    def report(self) -> EngineReport | None:
        """The report of the current phase."""
        match self.phase:
            case Phase.ANNOUNCED:
                return NoticeReported(
                    node=self.node,
                    source=SOURCE,
                    kind=NoticeKind.TERMINATE,
                    ends_at_ms=self.lost_at_ms,
                )
            case Phase.LOST:
                return NodeLost(node=self.node, at_ms=self.lost_at_ms)
            case Phase.BACK:
                return NodeRestored(node=self.node, at_ms=self.back_at_ms)
            case Phase.TERMINATING:
                return None


class Outages:
    """Outages that are not over, on disk and in memory. Used by one thread at a time."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._outages = {one.node: one for one in _read(os.path.join(folder, FILE))}

    def last_reports(self) -> list[EngineReport]:
        """The last report of each node, which may have been lost; then finished outages are dropped."""
        outages = self._outages.values()
        reports = [report for outage in outages if (report := outage.report()) is not None]
        self._outages = {
            node: outage for node, outage in self._outages.items() if outage.phase is not Phase.BACK
        }
        self._write()
        return reports

    def begin(self, node: str, now_ms: int, notice_ms: int, absence_ms: int) -> EngineReport | None:
        """Start an outage after a notice, or at once without one. The notice's report, if there is one."""
        known = self._outages.get(node)
        if known is not None and known.phase is not Phase.BACK:
            return known.report()
        lost_at_ms = now_ms + notice_ms
        outage = VirtualOutage(
            node=node,
            lost_at_ms=lost_at_ms,
            back_at_ms=lost_at_ms + absence_ms,
            phase=Phase.ANNOUNCED if notice_ms > 0 else Phase.TERMINATING,
        )
        self._outages[node] = outage
        self._write()
        return outage.report()

    def is_out(self, node: str) -> bool:
        return node in self._outages and self._outages[node].is_out

    @property
    def terminating(self) -> list[str]:
        phases = self._outages.items()
        return sorted(node for node, outage in phases if outage.phase is Phase.TERMINATING)

    def advance(self, now_ms: int, is_empty: Callable[[str], bool]) -> list[EngineReport]:
        """Enter the phases that are due. ``is_empty`` returns whether nothing runs on a node."""
        reports: list[EngineReport] = []
        has_changed = False
        for node in sorted(self._outages):
            outage = self._outages[node]
            while (phase := _next_phase(outage, now_ms, is_empty)) is not outage.phase:
                outage.phase, has_changed = phase, True
                if (report := outage.report()) is not None:
                    reports.append(report)
        if has_changed:
            self._write()
        return reports

    def _write(self) -> None:
        """Durable: a node that is lost in the log must come back."""
        outages = [asdict(self._outages[node]) for node in sorted(self._outages)]
        write_atomically(self._folder, FILE, outages, sync=True)


def _next_phase(outage: VirtualOutage, now_ms: int, is_empty: Callable[[str], bool]) -> Phase:
    timed_out = now_ms >= outage.lost_at_ms + TERMINATE_TIMEOUT_MS
    match outage.phase:
        case Phase.ANNOUNCED if now_ms >= outage.lost_at_ms:
            return Phase.TERMINATING
        case Phase.TERMINATING if is_empty(outage.node) or timed_out:
            return Phase.LOST
        case Phase.LOST if now_ms >= outage.back_at_ms:
            return Phase.BACK
    return outage.phase


def _read(path: str) -> Iterable[VirtualOutage]:
    try:
        with open(path, encoding="utf-8") as file:
            records = json.load(file)
    except FileNotFoundError:
        return []
    return [VirtualOutage(**{**record, "phase": Phase(record["phase"])}) for record in records]
