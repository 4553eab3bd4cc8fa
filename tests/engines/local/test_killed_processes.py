"""Killed processes: no attempt runs twice, and no process runs unobserved."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from bursar.engines.local.supervisor.proc import boot_id, read_process
from bursar.engines.local.supervisor.rendezvous_port import hold_port
from bursar.model.errors import EngineFault
from bursar.model.event import AttemptStarted
from bursar.model.jobs.run_spec import RunSpec
from tests.conformance.engine_harness import LocalHarness, until
from tests.conformance.engine_orders import order, ref
from tests.engines.local.inspect_processes import (
    folder_of,
    is_running,
    kill_and_wait,
    process_record,
    read_pid,
)

J = ref("j-1")


def hiding(trail: Path) -> str:
    """A script with a child in another session and an orphaned grandchild."""
    return (
        f"setsid sh -c 'echo $$ > {trail}/hidden; exec sleep 60' < /dev/null > /dev/null 2>&1 &\n"
        f"(sh -c 'echo $$ > {trail}/child; exec sleep 60' &)\n"
        f"echo $$ > {trail}/task\n"
    )


def pids(trail: Path) -> list[int]:
    return [read_pid(trail / name) for name in ("hidden", "child", "task")]


def test_all_processes_end_when_the_attempt_process_is_killed(
    harness: LocalHarness, tmp_path: Path
) -> None:
    listener = harness.open()
    listener.engine.start(order("j-1", hiding(tmp_path) + "exec sleep 60"))
    listener.started(J)
    family = pids(tmp_path)
    assert all(map(is_running, family))
    kill_and_wait(process_record(harness, J)["pid"])
    ended = listener.ended(J)
    assert (ended.code, ended.signal) == (None, None)
    assert "attempt process was killed" in ended.detail
    assert not any(map(is_running, family))


def test_a_running_job_survives_the_kill_of_the_supervisor(
    harness: LocalHarness, tmp_path: Path
) -> None:
    listener = harness.open()
    listener.engine.start(
        order("j-1", f'while [ ! -e "{tmp_path}/go" ]; do sleep 0.02; done; exit 7')
    )
    listener.started(J)
    kill_and_wait(harness.supervisor_pid())
    listener.engine.start(order("j-2", "exit 5"))
    assert listener.ended(ref("j-2")).code == 5
    (tmp_path / "go").touch()
    assert listener.ended(J).code == 7


def test_a_waiting_engine_replaces_a_killed_supervisor(harness: LocalHarness) -> None:
    listener = harness.open()
    before = harness.supervisor_pid()
    kill_and_wait(before)
    listener.listen(0.3)
    assert harness.supervisor_pid() != before


def test_an_attempt_process_killed_without_a_supervisor_is_cleaned_up(
    harness: LocalHarness, tmp_path: Path
) -> None:
    """Its orphans are children of init; they are found by session and by environment key."""
    listener = harness.open()
    listener.engine.start(order("j-1", hiding(tmp_path) + "exec sleep 60"))
    listener.started(J)
    family = pids(tmp_path)
    attempt_pid = process_record(harness, J)["pid"]
    kill_and_wait(harness.supervisor_pid())
    kill_and_wait(attempt_pid)
    assert "attempt process was killed" in listener.ended(J).detail
    assert not any(map(is_running, family))


def test_a_new_supervisor_can_stop_an_attempt_of_an_old_one(
    harness: LocalHarness, tmp_path: Path
) -> None:
    listener = harness.open()
    listener.engine.start(order("j-1", hiding(tmp_path) + "exec sleep 60"))
    listener.started(J)
    family = pids(tmp_path)
    kill_and_wait(harness.supervisor_pid())
    listener.engine.stop(J, 0)
    assert "stopped as ordered" in listener.ended(J).detail
    assert not any(map(is_running, family))


def test_an_attempt_process_killed_during_setup_ends_the_attempt(
    harness: LocalHarness, tmp_path: Path
) -> None:
    listener = harness.open()
    setup = f"echo $$ > {tmp_path}/setup; exec sleep 60"
    listener.engine.start(order("j-1", RunSpec(setup=setup, run=f"touch {tmp_path}/ran")))
    pid = read_pid(tmp_path / "setup")
    kill_and_wait(process_record(harness, J)["pid"])
    assert "before its tasks began" in listener.ended(J).detail
    assert not is_running(pid)
    assert not (tmp_path / "ran").exists()
    assert listener.count(AttemptStarted, J) == 0


def write_claim(harness: LocalHarness, text: str, linked: bool = True) -> Path:
    """Write a claim into the index; a crash may come before it is linked into the folder."""
    entry = harness.state / "engine" / "live" / "j-1@1"
    entry.write_text(text)
    folder = folder_of(harness, J)
    if linked:
        folder.mkdir(parents=True)
        os.link(entry, folder / "claim")
    return folder


@pytest.mark.parametrize("linked", [True, False])
def test_a_claim_without_an_attempt_process_ends_and_never_starts(
    harness: LocalHarness, tmp_path: Path, linked: bool
) -> None:
    """A crash between the claim and the first process leaves this state."""
    first = harness.open()
    kill_and_wait(harness.supervisor_pid())
    first.engine.close()
    write_claim(harness, json.dumps({"key": "0" * 32, "nodes": ["node-0"]}), linked=linked)
    second = harness.open([J])
    assert second.engine.unknown([J]) == ()
    second.engine.start(order("j-1", f"touch {tmp_path}/ran"))
    assert "before its tasks began" in second.ended(J).detail
    second.listen(0.1)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("torn", ["", '{"key": "'])
def test_an_attempt_with_a_truncated_claim_ends(harness: LocalHarness, torn: str) -> None:
    first = harness.open()
    kill_and_wait(harness.supervisor_pid())
    first.engine.close()
    write_claim(harness, torn)
    assert "attempt process was killed" in harness.open([J]).ended(J).detail


def test_processes_of_another_boot_are_left_alone(harness: LocalHarness) -> None:
    """Other processes may have reused their ids and start times."""
    first = harness.open()
    kill_and_wait(harness.supervisor_pid())
    first.engine.close()
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as other_process:
        process = read_process(other_process.pid)
        assert process is not None
        claim = {"key": "1" * 32, "boot": "another", "nodes": []}
        folder = write_claim(harness, json.dumps(claim))
        record = {"pid": 1, "start": 1, "boot": "another", "tasks": [[process.pid, process.start]]}
        (folder / "processes").write_text(json.dumps(record))
        (folder / "began").write_text('{"at_ms": 5}')
        assert "machine was restarted" in harness.open([J]).ended(J).detail
        assert is_running(other_process.pid)
        other_process.kill()


def test_a_reused_process_id_is_left_alone(harness: LocalHarness) -> None:
    first = harness.open()
    kill_and_wait(harness.supervisor_pid())
    first.engine.close()
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as other_process:
        boot = boot_id()
        folder = write_claim(harness, json.dumps({"key": "2" * 32, "boot": boot, "nodes": []}))
        record = {"pid": 1, "start": 1, "boot": boot, "tasks": [[other_process.pid, 1]]}
        (folder / "processes").write_text(json.dumps(record))
        assert "attempt process was killed" in harness.open([J]).ended(J).detail
        assert is_running(other_process.pid)
        other_process.kill()


def test_a_detached_process_without_environment_is_killed_with_its_attempt(
    harness: LocalHarness, tmp_path: Path
) -> None:
    """It has another session, no environment and no parent, but the supervisor is its subreaper."""
    listener = harness.open()
    hidden = f"env -i setsid sh -c 'echo $$ > {tmp_path}/hidden; exec sleep 60' > /dev/null 2>&1 &"
    listener.engine.start(order("j-1", f"({hidden})\nexec sleep 60"))
    pid = read_pid(tmp_path / "hidden")
    listener.started(J)
    kill_and_wait(process_record(harness, J)["pid"])
    listener.ended(J)
    assert not is_running(pid)


def test_background_processes_of_a_task_end_with_it(harness: LocalHarness, tmp_path: Path) -> None:
    listener = harness.open()
    waits = (
        f'while [ ! -s "{tmp_path}/hidden" ] || [ ! -s "{tmp_path}/child" ]; do sleep 0.02; done'
    )
    listener.engine.start(order("j-1", f"{hiding(tmp_path)}{waits}; exit 0"))
    ended = listener.ended(J)
    assert (ended.code, ended.detail) == (0, "")
    assert not any(map(is_running, pids(tmp_path)))


def test_a_child_may_use_the_grace_period_after_its_shell_has_ended(
    harness: LocalHarness, tmp_path: Path
) -> None:
    """A shell ends on SIGTERM at once; the program it runs may be saving its work."""
    saver = tmp_path / "saver.sh"
    saver.write_text(
        f"trap 'sleep 0.3; echo safe > {tmp_path}/safe; exit 0' TERM\n"
        f"echo $$ > {tmp_path}/saver\nwhile :; do sleep 0.02; done\n"
    )
    listener = harness.open()
    listener.engine.start(order("j-1", f"bash {saver}\necho never"))
    read_pid(tmp_path / "saver")
    listener.engine.stop(J, 30)
    ended = listener.ended(J)
    assert ended.signal == signal.SIGTERM and "ended within 30 s" in ended.detail
    assert (tmp_path / "safe").read_text() == "safe\n"


def test_a_suspended_process_can_be_stopped(harness: LocalHarness, tmp_path: Path) -> None:
    listener = harness.open()
    listener.engine.start(order("j-1", f"echo $$ > {tmp_path}/task; kill -STOP $$; exit 3"))
    read_pid(tmp_path / "task")
    listener.engine.stop(J, 30)
    assert listener.ended(J).signal == signal.SIGTERM


def test_only_the_newest_control_plane_is_accepted(harness: LocalHarness) -> None:
    old = harness.open()
    new = harness.open()
    with pytest.raises(EngineFault, match="taken over"):
        old.engine.start(order("j-1", "true"))
    assert new.engine.unknown([J]) == (J,)
    new.engine.start(order("j-1", "true"))
    assert new.ended(J).code == 0


def test_two_gangs_never_share_a_port() -> None:
    """The job can bind the port; it is reserved until the attempt process ends."""
    first, held = hold_port("seed")
    second, also_held = hold_port("seed")
    assert first != second
    with socket.socket() as job:
        job.bind(("127.0.0.1", first))
        also_held.close()
        held.close()
        third, held = hold_port("seed")
        assert third == second
    held.close()
    fourth, held = hold_port("seed")
    held.close()
    assert fourth == first


def test_an_idle_supervisor_exits(harness: LocalHarness) -> None:
    listener = harness.open()
    pid = harness.supervisor_pid()
    listener.engine.close()
    until("the supervisor has exited", lambda: not is_running(pid))
