"""Azure Scheduled Events: evictions and restarts of this machine, and the leave to begin them early."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any

from bursar.clouds.instance_metadata import MetadataServer, NowMs
from bursar.model.engine_report import NoticeReported
from bursar.model.event import NoticeKind

ADDRESS = "http://169.254.169.254"
SOURCE = "azure"
EVENTS_PATH = "/metadata/scheduledevents?api-version=2020-07-01"
NAME_PATH = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
HEADERS = {"Metadata": "true"}
ENDS_THE_MACHINE = frozenset({"Preempt", "Terminate", "Reboot", "Redeploy"})
"""What a job does not survive. A freeze of a few seconds is not among them."""
FIRST_CALL_SECONDS = 120.0
"""The first call switches the service on, which can take minutes."""


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _never(_node: str) -> bool:
    return False


class AzureNotices:
    """``nodes`` are those that this machine is. ``is_clear`` says whether nothing runs on one any more:
    then Azure is told to go ahead, so that nobody pays for a machine that only waits for its end."""

    def __init__(
        self,
        nodes: Sequence[str],
        address: str = ADDRESS,
        is_clear: Callable[[str], bool] = _never,
        now_ms: NowMs = _wall_ms,
    ) -> None:
        self._nodes = tuple(nodes)
        self._server = MetadataServer(address, HEADERS)
        self._is_clear = is_clear
        self._now_ms = now_ms
        self._name = ""
        self._is_on = False
        self._told: set[str] = set()
        self._acknowledged: set[str] = set()

    def poll(self) -> Sequence[NoticeReported]:
        """Events of a whole scale set come to each of its machines: only those that name this one count."""
        name = self._own_name()
        wait_seconds = 0.0 if self._is_on else FIRST_CALL_SECONDS
        answer = self._server.get(EVENTS_PATH, wait_seconds=wait_seconds)
        if answer.status != 200:
            raise self._server.fault(f"answered {answer.status} to scheduled events")
        self._is_on = True
        listed = self._server.parsed(answer).get("Events")
        events = (
            [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        )
        ours = [
            one for one in events if one.get("EventType") in ENDS_THE_MACHINE and _names(one, name)
        ]
        for one in ours:
            self._let_it_begin(one)
        if not ours:
            return ()
        ends_at_ms = min(self._ends_at_ms(one) for one in ours)
        return [
            NoticeReported(
                node=node, source=SOURCE, kind=NoticeKind.TERMINATE, ends_at_ms=ends_at_ms
            )
            for node in self._nodes
        ]

    def _own_name(self) -> str:
        if not self._name:
            answer = self._server.get(NAME_PATH)
            if answer.status != 200 or not answer.text:
                raise self._server.fault(f"answered {answer.status} when asked for its own name")
            self._name = answer.text
        return self._name

    def _ends_at_ms(self, event: Mapping[str, Any]) -> int:
        """An event that has begun has no time any more: it is now."""
        text = str(event.get("NotBefore") or "")
        if event.get("EventStatus") == "Started" or not text:
            return self._now_ms()
        try:
            return round(parsedate_to_datetime(text).timestamp() * 1_000)
        except ValueError:
            return self._server.moment_ms(text)

    def _let_it_begin(self, event: Mapping[str, Any]) -> None:
        """Not before it was told and everybody has left."""
        name = str(event.get("EventId", ""))
        if name not in self._told:
            self._told.add(name)
            return
        if name in self._acknowledged or event.get("EventStatus") == "Started":
            return
        if all(self._is_clear(node) for node in self._nodes):
            body = {"StartRequests": [{"EventId": name}]}
            answer = self._server.send("POST", EVENTS_PATH, {}, body)
            if answer.status == 200:
                self._acknowledged.add(name)


def _names(event: Mapping[str, Any], name: str) -> bool:
    """Whether an event is for this machine; names of machines do not depend on case."""
    resources = event.get("Resources")
    if not isinstance(resources, list):
        return False
    return name.casefold() in {str(one).casefold() for one in resources}
