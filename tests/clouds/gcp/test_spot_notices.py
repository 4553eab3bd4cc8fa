"""Compute Engine preemption notices, with a metadata server that supports long polling."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from bursar.clouds.gcp.spot_notices import PATH, GcpNotices
from bursar.model.engine_report import NoticeReported
from bursar.model.errors import EngineFault
from bursar.model.event import NoticeKind
from tests.clouds.metadata_double import Asked, Double, Reply, metadata_double


class Google:
    """``wait_for_change`` with the current etag waits for a change or the timeout."""

    def __init__(self) -> None:
        self.value = "FALSE"
        self.changed = threading.Event()
        self.waits: list[float] = []

    def __call__(self, asked: Asked) -> Reply:
        if asked.headers.get("metadata-flavor") != "Google":
            return Reply(status=403)
        parts = urlsplit(asked.path)
        assert parts.path == PATH
        query = parse_qs(parts.query)
        if query.get("wait_for_change") == ["true"] and query["last_etag"] == [self.etag]:
            self.waits.append(float(query["timeout_sec"][0]))
            self.changed.wait(0.2)
        return Reply(body=self.value, headers={"ETag": self.etag, "Metadata-Flavor": "Google"})

    @property
    def etag(self) -> str:
        return f"etag/{self.value}"

    def preempt(self) -> None:
        self.value = "TRUE"
        self.changed.set()


@pytest.fixture
def google() -> Google:
    return Google()


@pytest.fixture
def double(google: Google) -> Iterator[Double]:
    with metadata_double(google) as double:
        yield double


def test_the_first_poll_reads_and_later_polls_wait(double: Double, google: Google) -> None:
    source = GcpNotices(["n1"], double.address, now_ms=lambda: 1_000)
    assert source.poll() == () and not google.waits
    assert source.poll() == () and google.waits == [4.0]
    timer = threading.Timer(0.05, google.preempt)
    timer.start()
    notices = source.poll()
    timer.join()
    assert notices == [
        NoticeReported(node="n1", source="gcp", kind=NoticeKind.TERMINATE, ends_at_ms=31_000)
    ]


def test_the_30_seconds_count_from_the_first_report(double: Double, google: Google) -> None:
    google.preempt()
    now = [5_000]
    source = GcpNotices(["n1"], double.address, now_ms=lambda: now[0])
    (first,) = source.poll()
    now[0] = 15_000
    (again,) = source.poll()
    assert first == again and first.ends_at_ms == 35_000


def test_a_server_that_is_not_googles_is_a_fault() -> None:
    answers = metadata_double(lambda _asked: Reply(body="TRUE"))
    with answers as double, pytest.raises(EngineFault, match="not Google's"):
        GcpNotices(["n1"], double.address).poll()
