"""What is killed, when, and what becomes of the attempt: never two lives, never one unobserved."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from bursar.engines.local.supervisor.proc import boot_id, look
from bursar.engines.local.supervisor.rendezvous_port import hold_port
from bursar.model.engine_report import TasksStarted
from bursar.model.errors import EngineFault
from bursar.model.jobs.run_spec import RunSpec
from tests.conformance.engine_orders import order, ref
from tests.conformance.engine_stands import LocalStand, until
from tests.engines.local.looking import (
    folder_of,
    is_running,
    keeper_of,
    kill_and_wait,
    read_pid,
)

J = ref("j-1")


def hiding(trail: Path) -> str:
    """A script whose grandchild leaves the group, the session and its parent."""
    return (
        f"setsid sh -c 'echo $$ > {trail}/hidden; exec sleep 60' < /dev/null > /dev/null 2>&1 &\n"
        f"(sh -c 'echo $$ > {trail}/child; exec sleep 60' &)\n"
        f"echo $$ > {trail}/task\n"
    )


def pids(trail: Path) -> list[int]:
    return [read_pid(trail / name) for name in ("hidden", "child", "task")]


def test_a_killed_keeper_takes_everything_with_it(stand: LocalStand, tmp_path: Path) -> None:
    listener = stand.open()
    listener.engine.start(order("j-1", hiding(tmp_path) + "exec sleep 60"))
    listener.started(J)
    family = pids(tmp_path)
    assert all(map(is_running, family))
    kill_and_wait(keeper_of(stand, J)["pid"])
    ended = listener.ended(J)
    assert (ended.code, ended.signal) == (None, None)
    assert "keeper was killed" in ended.detail
    assert not any(map(is_running, family))


def test_a_killed_warden_is_nothing_to_a_running_job(stand: LocalStand, tmp_path: Path) -> None:
    listener = stand.open()
    listener.engine.start(
        order("j-1", f'while [ ! -e "{tmp_path}/go" ]; do sleep 0.02; done; exit 7')
    )
    listener.started(J)
    kill_and_wait(stand.warden_pid())
    listener.engine.start(order("j-2", "exit 5"))
    assert listener.ended(ref("j-2")).code == 5
    (tmp_path / "go").touch()
    assert listener.ended(J).code == 7


def test_a_waiting_engine_replaces_a_killed_warden_by_itself(stand: LocalStand) -> None:
    listener = stand.open()
    before = stand.warden_pid()
    kill_and_wait(before)
    listener.listen(0.3)
    assert stand.warden_pid() != before


def test_a_keeper_killed_while_no_warden_lives_is_found(stand: LocalStand, tmp_path: Path) -> None:
    """Its orphans then belong to init: they are found by their session and by their key."""
    listener = stand.open()
    listener.engine.start(order("j-1", hiding(tmp_path) + "exec sleep 60"))
    listener.started(J)
    family = pids(tmp_path)
    keeper = keeper_of(stand, J)["pid"]
    kill_and_wait(stand.warden_pid())
    kill_and_wait(keeper)
    assert "keeper was killed" in listener.ended(J).detail
    assert not any(map(is_running, family))


def test_a_new_warden_can_stop_what_an_old_one_started(stand: LocalStand, tmp_path: Path) -> None:
    listener = stand.open()
    listener.engine.start(order("j-1", hiding(tmp_path) + "exec sleep 60"))
    listener.started(J)
    family = pids(tmp_path)
    kill_and_wait(stand.warden_pid())
    listener.engine.stop(J, 0)
    assert "stopped as ordered" in listener.ended(J).detail
    assert not any(map(is_running, family))


def test_a_keeper_killed_during_setup_ends_the_attempt(stand: LocalStand, tmp_path: Path) -> None:
    listener = stand.open()
    setup = f"echo $$ > {tmp_path}/setup; exec sleep 60"
    listener.engine.start(order("j-1", RunSpec(setup=setup, run=f"touch {tmp_path}/ran")))
    pid = read_pid(tmp_path / "setup")
    kill_and_wait(keeper_of(stand, J)["pid"])
    assert "before its tasks began" in listener.ended(J).detail
    assert not is_running(pid)
    assert not (tmp_path / "ran").exists()
    assert listener.count(TasksStarted, J) == 0


def leave_a_mark(stand: LocalStand, text: str, linked: bool = True) -> Path:
    """In the index; a crash may come before the folder has it too."""
    entry = stand.state / "engine" / "live" / "j-1@1"
    entry.write_text(text)
    folder = folder_of(stand, J)
    if linked:
        folder.mkdir(parents=True)
        os.link(entry, folder / "taken")
    return folder


@pytest.mark.parametrize("linked", [True, False])
def test_a_mark_without_a_keeper_is_an_end_and_never_a_start(
    stand: LocalStand, tmp_path: Path, linked: bool
) -> None:
    """What a crash between the mark and the first process leaves behind."""
    first = stand.open()
    kill_and_wait(stand.warden_pid())
    first.engine.close()
    leave_a_mark(stand, json.dumps({"key": "0" * 32, "nodes": ["node-0"]}), linked=linked)
    second = stand.open([J])
    assert second.engine.unknown([J]) == ()
    second.engine.start(order("j-1", f"touch {tmp_path}/ran"))
    assert "before its tasks began" in second.ended(J).detail
    second.listen(0.1)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("torn", ["", '{"key": "'])
def test_a_torn_mark_is_an_end_too(stand: LocalStand, torn: str) -> None:
    first = stand.open()
    kill_and_wait(stand.warden_pid())
    first.engine.close()
    leave_a_mark(stand, torn)
    assert "keeper was killed" in stand.open([J]).ended(J).detail


def test_processes_of_another_boot_are_left_alone(stand: LocalStand) -> None:
    """Their ids, and even their start times, may be anybody's by now."""
    first = stand.open()
    kill_and_wait(stand.warden_pid())
    first.engine.close()
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        seen = look(stranger.pid)
        assert seen is not None
        mark = {"key": "1" * 32, "boot": "another", "nodes": []}
        folder = leave_a_mark(stand, json.dumps(mark))
        record = {"pid": 1, "start": 1, "boot": "another", "tasks": [[seen.pid, seen.start]]}
        (folder / "keeper").write_text(json.dumps(record))
        (folder / "began").write_text('{"at_ms": 5}')
        assert "machine was restarted" in stand.open([J]).ended(J).detail
        assert is_running(stranger.pid)
        stranger.kill()


def test_a_reused_process_id_is_left_alone(stand: LocalStand) -> None:
    first = stand.open()
    kill_and_wait(stand.warden_pid())
    first.engine.close()
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        boot = boot_id()
        folder = leave_a_mark(stand, json.dumps({"key": "2" * 32, "boot": boot, "nodes": []}))
        record = {"pid": 1, "start": 1, "boot": boot, "tasks": [[stranger.pid, 1]]}
        (folder / "keeper").write_text(json.dumps(record))
        assert "keeper was killed" in stand.open([J]).ended(J).detail
        assert is_running(stranger.pid)
        stranger.kill()


def test_even_what_hides_completely_ends_with_its_keeper(stand: LocalStand, tmp_path: Path) -> None:
    """Another session, no environment, no parent: but the warden is where orphans fall to."""
    listener = stand.open()
    hidden = f"env -i setsid sh -c 'echo $$ > {tmp_path}/hidden; exec sleep 60' > /dev/null 2>&1 &"
    listener.engine.start(order("j-1", f"({hidden})\nexec sleep 60"))
    pid = read_pid(tmp_path / "hidden")
    listener.started(J)
    kill_and_wait(keeper_of(stand, J)["pid"])
    listener.ended(J)
    assert not is_running(pid)


def test_what_a_task_leaves_behind_ends_with_it(stand: LocalStand, tmp_path: Path) -> None:
    listener = stand.open()
    waits = (
        f'while [ ! -s "{tmp_path}/hidden" ] || [ ! -s "{tmp_path}/child" ]; do sleep 0.02; done'
    )
    listener.engine.start(order("j-1", f"{hiding(tmp_path)}{waits}; exit 0"))
    ended = listener.ended(J)
    assert (ended.code, ended.detail) == (0, "")
    assert not any(map(is_running, pids(tmp_path)))


def test_a_child_may_use_the_grace_after_its_shell_is_gone(
    stand: LocalStand, tmp_path: Path
) -> None:
    """A shell dies of SIGTERM at once; the program it runs may be saving its work."""
    saver = tmp_path / "saver.sh"
    saver.write_text(
        f"trap 'sleep 0.3; echo safe > {tmp_path}/safe; exit 0' TERM\n"
        f"echo $$ > {tmp_path}/saver\nwhile :; do sleep 0.02; done\n"
    )
    listener = stand.open()
    listener.engine.start(order("j-1", f"bash {saver}\necho never"))
    read_pid(tmp_path / "saver")
    listener.engine.stop(J, 30)
    ended = listener.ended(J)
    assert ended.signal == signal.SIGTERM and "ended within 30 s" in ended.detail
    assert (tmp_path / "safe").read_text() == "safe\n"


def test_a_stopped_process_can_be_ended(stand: LocalStand, tmp_path: Path) -> None:
    listener = stand.open()
    listener.engine.start(order("j-1", f"echo $$ > {tmp_path}/task; kill -STOP $$; exit 3"))
    read_pid(tmp_path / "task")
    listener.engine.stop(J, 30)
    assert listener.ended(J).signal == signal.SIGTERM


def test_the_newest_control_plane_is_obeyed_alone(stand: LocalStand) -> None:
    old = stand.open()
    new = stand.open()
    with pytest.raises(EngineFault, match="taken over"):
        old.engine.start(order("j-1", "true"))
    assert new.engine.unknown([J]) == (J,)
    new.engine.start(order("j-1", "true"))
    assert new.ended(J).code == 0


def test_two_gangs_never_share_a_port() -> None:
    """The port is free for the job to bind, and kept from others until its keeper is gone."""
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


def test_an_idle_warden_goes_away(stand: LocalStand) -> None:
    listener = stand.open()
    pid = stand.warden_pid()
    listener.engine.close()
    until("the warden has gone", lambda: not is_running(pid))
