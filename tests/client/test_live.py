"""The client and functions as jobs, against a control plane started by ``bursar up``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bursar.client import Client
from bursar.client.errors import Denied, NotFound
from tests.cli.live import Live, live
from tests.client import job_functions


@pytest.fixture(scope="module")
def live_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("live")) as one:
        yield one


@pytest.fixture
def ada(live_plane: Live) -> Iterator[Client]:
    with Client(live_plane.ada.server, live_plane.ada.token) as client:
        yield client.with_options(queue="vision")


def test_a_function_runs_as_a_job_and_returns_its_result(ada: Client) -> None:
    job = ada.with_options(gpus=1).submit(job_functions.add, 2, second=5)
    assert job.result(timeout=60) == {"sum": 7}
    assert job.state == "succeeded"
    assert job.logs() == "adding, without an end of line"
    assert list(job.logs(follow=True)) == ["adding, without an end of line"]


def test_an_exception_in_the_job_is_raised(ada: Client) -> None:
    job = ada.submit(job_functions.fail, "too hot")
    with pytest.raises(job_functions.CustomError, match="too hot"):
        job.result(timeout=60)
    assert job.state == "failed"


def test_a_large_result_is_returned(ada: Client) -> None:
    assert ada.submit(job_functions.return_bytes, 3 << 20).result(timeout=120) == bytes(3 << 20)


def test_the_result_of_another_user_is_denied_or_not_found(live_plane: Live, ada: Client) -> None:
    job = ada.submit(job_functions.add, 1)
    job.wait(60)
    with Client(live_plane.bob.server, live_plane.bob.token) as bob, pytest.raises(NotFound):
        bob.job(job.id).result()
    with (
        Client(live_plane.admin.server, live_plane.admin.token) as admin,
        pytest.raises(Denied, match="belongs to ada"),
    ):
        admin.job(job.id).result()


def test_files_are_sent_with_the_job(ada: Client, tmp_path: Path) -> None:
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


def test_a_job_is_cancelled_and_retried(ada: Client) -> None:
    job = ada.submit({"run": "sleep 600"})
    job.cancel()
    assert job.wait(60) == "cancelled"
    again = job.retry()
    assert again.id != job.id
    assert again.id in again.why()
    again.cancel()
    assert again.wait(60) == "cancelled"
    assert ada.events_of(job.id)[0]["type"] == "JobSubmitted"


def test_many_jobs_are_submitted_at_once(ada: Client) -> None:
    ids = ada.submit_many([{"run": "true", "queue": "vision"} for _ in range(20)])
    assert len(set(ids)) == 20
    assert {ada.job(one).wait(60) for one in ids} == {"succeeded"}
