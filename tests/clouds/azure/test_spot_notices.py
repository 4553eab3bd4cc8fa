"""Azure Scheduled Events, with a metadata server in the documented format."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bursar.clouds.azure.spot_notices import EVENTS_PATH, NAME_PATH, AzureNotices
from bursar.model.engine_report import NoticeReported
from bursar.model.errors import EngineFault
from bursar.model.event import NoticeKind
from tests.clouds.metadata_double import Asked, Double, Reply, metadata_double

ENDS_AT_MS = 1_474_309_787_000


def event(**changes: object) -> dict[str, Any]:
    return {
        "EventId": "f020ba2e-3bc0-4c40-a10b-86575a9eabd5",
        "EventType": "Preempt",
        "ResourceType": "VirtualMachine",
        "Resources": ["FrontEnd_IN_0", "BackEnd_IN_0"],
        "EventStatus": "Scheduled",
        "NotBefore": "Mon, 19 Sep 2016 18:29:47 GMT",
        "Description": "",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
        **changes,
    }


class Azure:
    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.started: list[str] = []

    def __call__(self, asked: Asked) -> Reply:
        if asked.headers.get("metadata") != "true":
            return Reply(status=400)
        if asked.path == NAME_PATH:
            return Reply(body="frontend_in_0")
        assert asked.path == EVENTS_PATH
        if asked.method == "POST":
            self.started += [one["EventId"] for one in json.loads(asked.body)["StartRequests"]]
            return Reply()
        return Reply(body=json.dumps({"DocumentIncarnation": 2, "Events": self.events}))


@pytest.fixture
def azure() -> Azure:
    return Azure()


@pytest.fixture
def double(azure: Azure) -> Iterator[Double]:
    with metadata_double(azure) as double:
        yield double


def test_no_event(double: Double) -> None:
    source = AzureNotices(["n1"], double.address)
    assert source.poll() == () and source.poll() == ()
    assert double.paths().count(f"GET {NAME_PATH}") == 1


@pytest.mark.parametrize("kind", ["Preempt", "Terminate", "Reboot", "Redeploy"])
def test_events_that_end_the_machine_are_reported(double: Double, azure: Azure, kind: str) -> None:
    azure.events = [event(EventType=kind)]
    assert AzureNotices(["n1"], double.address).poll() == [
        NoticeReported(node="n1", source="azure", kind=NoticeKind.TERMINATE, ends_at_ms=ENDS_AT_MS)
    ]


def test_other_events_and_other_machines_are_ignored(double: Double, azure: Azure) -> None:
    azure.events = [
        event(EventType="Freeze"),
        event(Resources=["BackEnd_IN_0"]),
        event(Resources=None),
    ]
    assert AzureNotices(["n1"], double.address).poll() == ()


def test_a_started_event_ends_the_machine_now(double: Double, azure: Azure) -> None:
    azure.events = [event(EventStatus="Started", NotBefore="")]
    (report,) = AzureNotices(["n1"], double.address, now_ms=lambda: 77).poll()
    assert report.ends_at_ms == 77


def test_an_event_is_approved_once_all_nodes_are_clear(double: Double, azure: Azure) -> None:
    clear: set[str] = set()
    source = AzureNotices(["n1", "n2"], double.address, is_clear=lambda node: node in clear)
    azure.events = [event()]
    source.poll()
    source.poll()
    clear.add("n1")
    source.poll()
    assert azure.started == [], "a job still runs on n2"
    clear.add("n2")
    source.poll()
    source.poll()
    assert azure.started == [event()["EventId"]], "once"


def test_an_event_is_not_approved_by_the_poll_that_reports_it(double: Double, azure: Azure) -> None:
    source = AzureNotices(["n1"], double.address, is_clear=lambda _node: True)
    azure.events = [event()]
    assert source.poll()
    assert azure.started == []


def test_an_invalid_response_is_a_fault() -> None:
    def answer(asked: Asked) -> Reply:
        return Reply(body="name" if asked.path == NAME_PATH else "oops")

    with metadata_double(answer) as double, pytest.raises(EngineFault, match="not a notice"):
        AzureNotices(["n1"], double.address).poll()
