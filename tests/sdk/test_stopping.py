"""Stop signals: a flag, callbacks once, one last save, and an exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from bursar.sdk import PREEMPTED_EXIT, Preempted, checkpointing
from bursar.sdk.signals import StopSignals
from tests.sdk.writing import is_exact, python, reports, writer

LOOP = """
import sys, threading, time
from pathlib import Path
from bursar.sdk import checkpointing
from tests.sdk.writing import writer

with checkpointing("{location}") as run:
    found = run.resume()
    step = found.step if found else 0
    run.on_stop(lambda: print("called", threading.current_thread().name))
    print("ready")
    while step < 100_000:
        step += 1
        {work}
        run.progress(step, 100_000)
        if run.should_stop:
            print("left", run.grace_left_seconds)
            run.save(step, writer(step))
            print("never")
"""


def loop(location: Path, work: str = "time.sleep(0.001)", **env: str) -> subprocess.Popen[str]:
    root = Path(__file__).parents[2]
    path = f"{root / 'src'}{os.pathsep}{root}"
    job = python(LOOP.format(location=location, work=work), PYTHONPATH=path, **env)
    assert job.stdout is not None and job.stdout.readline() == "ready\n"
    return job


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_makes_the_next_save_the_last_and_sets_the_exit_code(
    signum: signal.Signals, tmp_path: Path
) -> None:
    env = {"BURSAR_SAVED_FILE": str(tmp_path / "reports"), "BURSAR_GRACE_SECONDS": "25"}
    job = loop(tmp_path / "c", **env)
    for _ in range(3):
        job.send_signal(signum)
    output, errors = job.communicate(timeout=30)
    assert (job.returncode, errors) == (PREEMPTED_EXIT, "")
    assert output.count("called bursar-stop") == 1 and "never" not in output
    left = float(next(line for line in output.splitlines() if line.startswith("left")).split()[1])
    assert 0 < left <= 25
    with checkpointing(tmp_path / "c") as run:
        found = run.resume()
    assert found is not None and is_exact(found)
    saved = [line for line in reports(tmp_path / "reports") if line["kind"] == "saved"]
    assert [line["step"] for line in saved] == [found.step]


def test_the_callback_runs_while_the_main_thread_is_busy(tmp_path: Path) -> None:
    """No Python handler runs during this call: only the byte of the C handler arrives."""
    busy = "import hashlib; hashlib.pbkdf2_hmac('sha256', b'a', b'b', 8_000_000)"
    job = loop(tmp_path / "c", work=f"{busy} if step == 1 else None; print('done')")
    job.send_signal(signal.SIGTERM)
    output, errors = job.communicate(timeout=60)
    assert (job.returncode, errors) == (PREEMPTED_EXIT, "")
    assert output.index("called") < output.index("done")


def test_a_signal_ends_forked_workers(tmp_path: Path) -> None:
    with checkpointing(tmp_path) as run:
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        os.kill(child, signal.SIGTERM)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM
        assert not run.should_stop


def test_handlers_are_restored(tmp_path: Path) -> None:
    before = {signum: signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGUSR1)}
    threads = threading.active_count()
    with checkpointing(tmp_path):
        assert signal.getsignal(signal.SIGTERM) != before[signal.SIGTERM]
    with pytest.raises(ValueError, match="mine"), checkpointing(tmp_path):
        raise ValueError("mine")
    assert before == {signum: signal.getsignal(signum) for signum in before}
    assert signal.set_wakeup_fd(-1) == -1
    assert threading.active_count() == threads


def test_a_handler_that_replaced_ours_stays(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    try:
        with checkpointing(tmp_path):
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        assert signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_in_another_thread_it_works_without_signals(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    steps: list[int] = []

    def work() -> None:
        with checkpointing(tmp_path) as run:
            run.save(1, writer(1))
            steps.extend(run.steps())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert steps == [1]
    assert "stop signals are ignored" in caplog.text


def test_a_save_longer_than_the_rest_of_the_grace_period_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("BURSAR_GRACE_SECONDS", "0")
    with checkpointing(tmp_path) as run:
        run.save(1, lambda folder: (time.sleep(0.01), writer(1)(folder)))
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Preempted) as left:
            run.save(2, writer(2))
    assert left.value.code == PREEMPTED_EXIT
    assert os.listdir(tmp_path) == ["00000001-step-1"]
    assert "step 2 is not saved: 0.0 s of the grace period are left" in caplog.text


def test_without_leave_the_caller_exits(tmp_path: Path) -> None:
    with checkpointing(tmp_path, leave=False) as run:
        os.kill(os.getpid(), signal.SIGTERM)
        assert run.save(1, writer(1)) is not None
        assert run.should_stop and run.due(3_600)
        with pytest.raises(Preempted):
            run.leave()


def test_a_callback_added_after_the_stop_runs_immediately() -> None:
    stop = StopSignals((signal.SIGUSR1,))
    assert stop.listen()
    called: list[str] = []
    stopped = threading.Event()
    stop.on_stop(stopped.set)
    os.kill(os.getpid(), signal.SIGUSR1)
    assert stopped.wait(20)
    stop.close()
    stop.on_stop(lambda: called.append("late"))
    assert called == ["late"]
