"""A notice of the metadata server is reported to Bursar and stops the command."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bursar.sdk import PREEMPTED_EXIT, notice
from tests.clouds.metadata_double import Asked, Reply, metadata_double
from tests.sdk.writing import environment

WAITS = "trap 'echo stopped; exit 85' TERM; echo ready; while true; do sleep 0.02; done"


def aws(asked: Asked) -> Reply:
    if asked.method == "PUT":
        return Reply(body="token")
    if asked.headers.get("x-aws-ec2-metadata-token") != "token":
        return Reply(status=401)
    return Reply(body='{"action": "terminate", "time": "2100-01-01T00:00:00Z"}')


def gcp(_asked: Asked) -> Reply:
    return Reply(body="TRUE")


def azure(asked: Asked) -> Reply:
    if "compute/name" in asked.path:
        return Reply(body="me")
    event = {
        "EventId": "1",
        "EventType": "Preempt",
        "Resources": ["Me"],
        "EventStatus": "Scheduled",
    }
    theirs = {**event, "Resources": ["other"], "NotBefore": "Mon, 19 Sep 2016 18:29:47 GMT"}
    ours = {**event, "NotBefore": "Fri, 01 Jan 2100 00:00:00 GMT"}
    return Reply(body=json.dumps({"DocumentIncarnation": 1, "Events": [theirs, ours]}))


def run(
    folder: Path, *arguments: str, address: str, script: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "bursar.sdk.notice", *arguments),
            *("--address", address, "--every", "0.1", "--", "bash", "-c", script),
        ],
        env=environment(BURSAR_SAVED_FILE=str(folder / "report")),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("provider", [aws, gcp, azure], ids=lambda one: one.__name__)
def test_a_notice_is_reported_and_stops_the_command(
    tmp_path: Path, provider: Callable[[Asked], Reply]
) -> None:
    name = provider.__name__
    with metadata_double(provider) as double:
        ran = run(tmp_path, "--provider", name, address=double.address, script=WAITS)
    assert ran.returncode == PREEMPTED_EXIT, ran.stderr
    assert "stopped" in ran.stdout
    report = json.loads((tmp_path / "report").read_text(encoding="utf-8").splitlines()[0])
    assert (report["kind"], report["source"]) == ("stopping", name)
    expected = time.time() * 1_000 + notice.GCP_NOTICE_MS if name == "gcp" else 4_102_444_800_000
    assert abs(report["ends_at_ms"] - expected) < 30_000


def test_without_a_notice_the_command_runs_to_its_end(tmp_path: Path) -> None:
    answers = [Reply(body="nonsense"), Reply(status=404)]

    def answer(_asked: Asked) -> Reply:
        return answers[0] if len(answers) == 1 else answers.pop(0)

    with metadata_double(answer) as double:
        ran = run(tmp_path, "--provider", "aws", address=double.address, script="sleep 0.7; exit 3")
    assert ran.returncode == 3
    assert not (tmp_path / "report").exists()


def test_an_unreachable_metadata_server_is_retried(tmp_path: Path) -> None:
    ran = run(tmp_path, "--provider", "gcp", address="http://127.0.0.1:9", script="sleep 0.5")
    assert ran.returncode == 0
    assert "will retry" in ran.stderr


def test_a_stop_signal_is_forwarded_and_reported(tmp_path: Path) -> None:
    arguments = [sys.executable, "-m", "bursar.sdk.notice", "--provider", "aws"]
    arguments += ["--address", "http://127.0.0.1:9", "--", "bash", "-c", WAITS]
    env = environment(BURSAR_SAVED_FILE=str(tmp_path / "report"), SLURM_JOB_ID="7")
    child = subprocess.Popen(arguments, env=env, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.3)
    child.terminate()
    assert child.wait(60) == PREEMPTED_EXIT
    child.stdout.close()
    report = json.loads((tmp_path / "report").read_text(encoding="utf-8").splitlines()[0])
    assert (report["kind"], report["source"]) == ("stopping", "slurm")
