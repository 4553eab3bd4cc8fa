"""The client and functions as jobs, on a control plane as ``bursar up`` starts it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bursar.client import Client
from bursar.client.errors import Denied, NotFound
from tests.cli.live import Live, live
from tests.client import called


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("live")) as one:
        yield one


@pytest.fixture
def ada(here: Live) -> Iterator[Client]:
    with Client(here.ada.server, here.ada.token) as client:
        yield client.with_options(queue="vision")


def test_a_function_runs_as_a_job_and_its_result_comes_back(ada: Client) -> None:
    job = ada.with_options(gpus=1).submit(called.add, 2, second=5)
    assert job.result(timeout=60) == {"sum": 7}
    assert job.state == "succeeded"
    assert job.logs() == "adding, without an end of line"
    assert list(job.logs(follow=True)) == ["adding, without an end of line"]


def test_what_it_raises_is_raised_here(ada: Client) -> None:
    job = ada.submit(called.fail, "too hot")
    with pytest.raises(called.Odd, match="too hot"):
        job.result(timeout=60)
    assert job.state == "failed"


def test_a_large_result_comes_back_whole(ada: Client) -> None:
    assert ada.submit(called.large, 3 << 20).result(timeout=120) == bytes(3 << 20)


def test_the_result_of_another_is_refused_or_not_there(here: Live, ada: Client) -> None:
    job = ada.submit(called.add, 1)
    job.wait(60)
    with Client(here.bob.server, here.bob.token) as bob, pytest.raises(NotFound):
        bob.job(job.id).result()
    with (
        Client(here.admin.server, here.admin.token) as admin,
        pytest.raises(Denied, match="belongs to ada"),
    ):
        admin.job(job.id).result()


def test_files_go_along(ada: Client, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "go.sh").write_text("cat data/a.txt b.txt\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("a")
    (tmp_path / "b.txt").write_text("b")
    (tmp_path / "job.yaml").write_text(
        "workdir: code\nfile_mounts:\n  data: data\n  b.txt: b.txt\nrun: sh go.sh\n"
    )
    job = ada.submit(tmp_path / "job.yaml")
    assert job.wait(60) == "succeeded", job.logs()
    assert job.logs() == "ab"


def test_a_job_is_cancelled_and_repeated(ada: Client) -> None:
    job = ada.submit({"run": "sleep 600"})
    job.cancel()
    assert job.wait(60) == "cancelled"
    again = job.retry()
    assert again.id != job.id
    assert again.id in again.why()
    again.cancel()
    assert again.wait(60) == "cancelled"
    assert ada.events_of(job.id)[0]["type"] == "JobSubmitted"


def test_many_at_once(ada: Client) -> None:
    ids = ada.submit_many([{"run": "true", "queue": "vision"} for _ in range(20)])
    assert len(set(ids)) == 20
    assert {ada.job(one).wait(60) for one in ids} == {"succeeded"}
