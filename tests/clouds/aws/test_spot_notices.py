"""EC2 spot notices, with a metadata server that requires IMDSv2."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from bursar.clouds.aws.spot_notices import ACTION_PATH, REBALANCE_PATH, TTL_SECONDS, AwsNotices
from bursar.model.engine_report import NoticeReported
from bursar.model.errors import EngineFault
from bursar.model.event import NoticeKind
from tests.clouds.metadata_double import Asked, Double, Reply, metadata_double

ENDS_AT_MS = 1_479_284_520_000
ACTION = {"action": "terminate", "time": "2016-11-16T08:22:00Z"}
REBALANCE = {"noticeTime": "2016-11-16T08:10:00Z"}


class Imds:
    """Returns 401 without the newest token, and 404 for unknown pages."""

    def __init__(self) -> None:
        self.pages: dict[str, str] = {}
        self.tokens = 0

    def __call__(self, asked: Asked) -> Reply:
        if (asked.method, asked.path) == ("PUT", "/latest/api/token"):
            if asked.headers.get("x-aws-ec2-metadata-token-ttl-seconds") != "21600":
                return Reply(status=400)
            self.tokens += 1
            return Reply(body=f"token-{self.tokens}")
        if asked.headers.get("x-aws-ec2-metadata-token") != f"token-{self.tokens}":
            return Reply(status=401)
        page = self.pages.get(asked.path)
        return Reply(status=404) if page is None else Reply(body=page)


@pytest.fixture
def imds() -> Imds:
    return Imds()


@pytest.fixture
def double(imds: Imds) -> Iterator[Double]:
    with metadata_double(imds) as double:
        yield double


def test_no_notice(double: Double) -> None:
    assert AwsNotices(["n1"], double.address).poll() == ()
    assert double.paths() == [
        "PUT /latest/api/token",
        f"GET {ACTION_PATH}",
        f"GET {REBALANCE_PATH}",
    ]


@pytest.mark.parametrize("action", ["terminate", "stop", "hibernate"])
def test_a_termination_is_reported(double: Double, imds: Imds, action: str) -> None:
    imds.pages[ACTION_PATH] = json.dumps({**ACTION, "action": action})
    imds.pages[REBALANCE_PATH] = json.dumps(REBALANCE)
    assert AwsNotices(["n1", "n2"], double.address).poll() == [
        NoticeReported(node=node, source="aws", kind=NoticeKind.TERMINATE, ends_at_ms=ENDS_AT_MS)
        for node in ("n1", "n2")
    ]


def test_a_rebalance_recommendation_has_no_end_time(double: Double, imds: Imds) -> None:
    imds.pages[REBALANCE_PATH] = json.dumps(REBALANCE)
    assert AwsNotices(["n1"], double.address).poll() == [
        NoticeReported(node="n1", source="aws", kind=NoticeKind.REBALANCE)
    ]


def test_a_token_is_renewed_when_it_expires_or_is_rejected(double: Double, imds: Imds) -> None:
    now = [0.0]
    source = AwsNotices(["n1"], double.address, monotonic=lambda: now[0])
    source.poll()
    source.poll()
    assert imds.tokens == 1
    now[0] = float(TTL_SECONDS)
    source.poll()
    assert imds.tokens == 2
    imds.tokens += 1
    assert source.poll() == ()
    assert imds.tokens == 4, "the token was rejected once and renewed"


@pytest.mark.parametrize(
    "page",
    ["<html>", "[]", '{"action": "terminate"}', '{"time": "soon"}', '{"time": "2016-11-16"}'],
)
def test_an_invalid_notice_is_a_fault(double: Double, imds: Imds, page: str) -> None:
    imds.pages[ACTION_PATH] = page
    with pytest.raises(EngineFault, match="metadata server"):
        AwsNotices(["n1"], double.address).poll()


def test_an_unreachable_server_is_a_fault() -> None:
    with pytest.raises(EngineFault, match="does not respond"):
        AwsNotices(["n1"], "http://127.0.0.1:9").poll()
