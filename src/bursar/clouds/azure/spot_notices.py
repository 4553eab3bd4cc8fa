"""Azure Scheduled Events: evictions and restarts, and approving them early."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any

from bursar.clouds.instance_metadata import MetadataServer, NowMs, notices_for, wall_clock_ms
from bursar.model.engine_report import NoticeReported
from bursar.model.event import NoticeKind

ADDRESS = "http://169.254.169.254"
SOURCE = "azure"
EVENTS_PATH = "/metadata/scheduledevents?api-version=2020-07-01"
NAME_PATH = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
HEADERS = {"Metadata": "true"}
ENDS_THE_MACHINE = frozenset({"Preempt", "Terminate", "Reboot", "Redeploy"})
"""Events that end jobs. A freeze of a few seconds does not."""
FIRST_CALL_SECONDS = 120.0
"""The first call enables the service, which can take minutes."""


class AzureNotices:
    """Polls for events of this machine, which is ``nodes`` in the fleet.

    If ``is_clear`` returns true for all nodes, no job runs there any more: the event is approved, so
    that the idle machine is not paid for until the scheduled time.
    """

    def __init__(
        self,
        nodes: Sequence[str],
        address: str = ADDRESS,
        is_clear: Callable[[str], bool] = lambda _node: False,
        now_ms: NowMs = wall_clock_ms,
    ) -> None:
        self._nodes = tuple(nodes)
        self._server = MetadataServer(address, HEADERS)
        self._is_clear = is_clear
        self._now_ms = now_ms
        self._name = ""
        self._is_enabled = False
        self._reported: set[str] = set()
        self._approved: set[str] = set()

    def poll(self) -> Sequence[NoticeReported]:
        """Returns the notices. Events of other machines of the scale set are ignored."""
        name = self._own_name()
        wait_seconds = 0.0 if self._is_enabled else FIRST_CALL_SECONDS
        response = self._server.get(EVENTS_PATH, wait_seconds=wait_seconds)
        if response.status != 200:
            raise self._server.fault(f"returned {response.status} for scheduled events")
        self._is_enabled = True
        listed = self._server.parse_object(response).get("Events")
        events = (
            [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        )
        ours = [
            one
            for one in events
            if one.get("EventType") in ENDS_THE_MACHINE and _concerns(one, name)
        ]
        for one in ours:
            self._approve_if_clear(one)
        if not ours:
            return ()
        ends_at_ms = min(self._ends_at_ms(one) for one in ours)
        return notices_for(self._nodes, SOURCE, NoticeKind.TERMINATE, ends_at_ms)

    def _own_name(self) -> str:
        if not self._name:
            response = self._server.get(NAME_PATH)
            if response.status != 200 or not response.text:
                raise self._server.fault(f"returned {response.status} for the machine name")
            self._name = response.text
        return self._name

    def _ends_at_ms(self, event: Mapping[str, Any]) -> int:
        """Time of an event; now if it has started, because then it has no time."""
        text = str(event.get("NotBefore") or "")
        if event.get("EventStatus") == "Started" or not text:
            return self._now_ms()
        try:
            return round(parsedate_to_datetime(text).timestamp() * 1_000)
        except ValueError:
            return self._server.parse_time_ms(text)

    def _approve_if_clear(self, event: Mapping[str, Any]) -> None:
        """Approves an event that was reported by an earlier poll once the nodes are clear."""
        name = str(event.get("EventId", ""))
        if name not in self._reported:
            self._reported.add(name)
            return
        if name in self._approved or event.get("EventStatus") == "Started":
            return
        if all(self._is_clear(node) for node in self._nodes):
            body = {"StartRequests": [{"EventId": name}]}
            response = self._server.send("POST", EVENTS_PATH, {}, body)
            if response.status == 200:
                self._approved.add(name)


def _concerns(event: Mapping[str, Any], name: str) -> bool:
    """Whether an event is for this machine. Names are case-insensitive."""
    resources = event.get("Resources")
    if not isinstance(resources, list):
        return False
    return name.casefold() in {str(one).casefold() for one in resources}
