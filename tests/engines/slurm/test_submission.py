"""Submission of orders and batching of reports, with fake programs and a fake slurmrestd."""

from __future__ import annotations

import json
import socket
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from bursar.engines.slurm.commands.commands import Commands
from bursar.engines.slurm.commands.rest_connection import (
    NotReachable,
    RestConnections,
    UnknownOutcome,
    read_response,
)
from bursar.engines.slurm.driven.engine import SlurmEngine
from bursar.engines.slurm.driven.report_batch import START_BATCH_SECONDS, ReportBatch
from bursar.engines.slurm.driven.request import HetComponent, JobRequest
from bursar.engines.slurm.driven.settings import SlurmSettings
from bursar.engines.slurm.driven.submit import Submitter
from bursar.model.engine_report import TasksEnded
from bursar.model.event import AttemptStarted
from bursar.model.jobs.attempt import Exit
from tests.conformance.engine_harness import until
from tests.conformance.engine_orders import order

# -- accounts --------------------------------------------------------------------------------------

FAKE_SBATCH = """#!/bin/sh
cat >/dev/null
echo "$*" >>"{log}"
case "$*" in *--account=*) echo "sbatch: error: Invalid account or partition" >&2; exit 1;; esac
echo 41
"""


def test_a_job_with_a_refused_account_is_submitted_without_it(tmp_path: Path) -> None:
    programs, log = tmp_path / "bin", tmp_path / "log"
    programs.mkdir()
    bodies = {"sacctmgr": "echo root; echo research", "sbatch": "", "squeue": ":", "scontrol": ":"}
    for name, line in bodies.items():
        text = FAKE_SBATCH.format(log=log) if name == "sbatch" else f"#!/bin/sh\n{line}\n"
        (programs / name).write_text(text, encoding="utf-8")
        (programs / name).chmod(0o755)
    commands = Commands(environment={"PATH": f"{programs}:/usr/bin:/bin"})
    engine = SlurmEngine(SlurmSettings(state=tmp_path / "state", commands=commands, nodes=()))
    engine.open([])
    for count, name in ((2, "j-1"), (3, "j-2")):
        engine.start(order(name, "true"))
        until("it is submitted", partial(has_lines, log, count))
    engine.close()
    assert ["--account=research" in line for line in lines_of(log)] == [True, False, False]


def has_lines(path: Path, count: int) -> bool:
    return len(lines_of(path)) == count


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


# -- slurmrestd's socket ---------------------------------------------------------------------------

REQUEST = JobRequest(
    name="j",
    comment="bursar:x:j-1@1",
    components=(HetComponent(nodes=("n",), cpus=1, memory_mib=0, gres=""),),
    minutes=1,
)


class FakeRest:
    """Returns the next of ``responses`` to each request; an empty one closes the connection."""

    def __init__(self, path: Path, responses: list[bytes]) -> None:
        self.path, self.responses, self.requests = path, responses, []  # type: ignore[var-annotated]
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while self.responses:
            connection, _ = self._listener.accept()
            with connection:
                while self.responses and (request := connection.recv(65_536)):
                    self.requests.append(request)
                    response = self.responses.pop(0)
                    if not response:
                        break
                    connection.sendall(response)
        self._listener.close()


def http_response(body: object, head: str = "") -> bytes:
    text = json.dumps(body).encode()
    return f"HTTP/1.1 200 OK\r\n{head}Content-Length: {len(text)}\r\n\r\n".encode() + text


@pytest.fixture
def no_sbatch(tmp_path: Path) -> Commands:
    return Commands(environment={"PATH": str(tmp_path / "nothing")})


def test_a_connection_is_reused(tmp_path: Path, no_sbatch: Commands) -> None:
    rest = FakeRest(tmp_path / "s", [http_response({"job_id": 7}), http_response({"job_id": 8})])
    submitter = Submitter(no_sbatch, rest.path)
    assert [submitter.submit(REQUEST, "true") for _ in range(2)] == ["7", "8"]
    assert b"POST /slurm/v0.0.38/job/submit" in rest.requests[1]
    submitter.close()


def test_a_missing_response_is_an_unknown_outcome(tmp_path: Path, no_sbatch: Commands) -> None:
    rest = FakeRest(tmp_path / "s", [b""])
    with pytest.raises(UnknownOutcome):
        Submitter(no_sbatch, rest.path).submit(REQUEST, "true")


def test_a_socket_without_a_listener_is_not_reachable(tmp_path: Path) -> None:
    with pytest.raises(NotReachable):
        RestConnections(str(tmp_path / "absent")).post("/x", b"{}")


@pytest.mark.parametrize(
    ("pieces", "body", "is_reusable"),
    [
        ([http_response(1)], b"1", True),
        (
            [http_response([1, 2])[:20], http_response([1, 2])[20:50], http_response([1, 2])[50:]],
            b"[1, 2]",
            True,
        ),
        ([http_response(1, "Connection: Close\r\n")], b"1", False),
        ([b"HTTP/1.0 500 No\r\n\r\nab", b"c"], b"abc", False),
    ],
)
def test_a_response_is_read_in_any_number_of_pieces(
    pieces: list[bytes], body: bytes, is_reusable: bool
) -> None:
    here, there = socket.socketpair()
    with here, there:
        for piece in pieces:
            there.sendall(piece)
        there.shutdown(socket.SHUT_WR)
        assert read_response(here) == (body, is_reusable)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"nonsense\r\n\r\n",
        http_response([1, 2])[:-1],
        http_response(1, "Transfer-Encoding: chunked\r\n"),
    ],
)
def test_an_incomplete_or_unreadable_response_is_rejected(text: bytes) -> None:
    here, there = socket.socketpair()
    with here, there:
        there.sendall(text)
        there.shutdown(socket.SHUT_WR)
        with pytest.raises(ValueError, match=r"the connection ended|not a readable response"):
            read_response(here)


# -- report batches --------------------------------------------------------------------------------

BEGAN = AttemptStarted(job_id="j-1", attempt=1, at_ms=1)
ENDED = TasksEnded(job_id="j-1", attempt=1, at_ms=2, exit=Exit(code=0))


def test_an_end_is_reported_at_once_with_the_batched_starts() -> None:
    batch = ReportBatch()
    batch.add(BEGAN)
    assert batch.take(flush=False) == []
    batch.add(ENDED)
    assert batch.take(flush=False) == [BEGAN, ENDED]
    assert batch.take(flush=True) == []
    batch.add(BEGAN)
    assert batch.take(flush=True) == [BEGAN]


def test_a_start_is_batched_for_a_limited_time() -> None:
    batch = ReportBatch()
    batch.add(BEGAN)
    time.sleep(START_BATCH_SECONDS)
    assert batch.take(flush=False) == [BEGAN]
