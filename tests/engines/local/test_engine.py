"""What the local engine keeps, tells and forgets, beyond what every engine promises."""

from __future__ import annotations

import json
import os
import socket
import stat
from pathlib import Path

import pytest

from bursar.engines.local import engine as local_engine
from bursar.engines.local.engine import LocalEngine
from bursar.engines.local.settings import LocalSettings
from bursar.engines.local.supervisor import socket_messages
from bursar.engines.local.supervisor.attempt_folder import AttemptFolder, BadJobId, make_folders
from bursar.engines.local.supervisor.socket_messages import receive, send
from bursar.engines.local.supervisor_client import SupervisorClient
from bursar.model.engine_report import CheckpointReported, NodeBackReported, NodeLostReported
from bursar.model.errors import BrokenInvariant, EngineFault
from bursar.model.jobs.run_spec import RunSpec
from tests.conformance.engine_orders import order, ref
from tests.conformance.engine_stands import LocalStand, until
from tests.conformance.engine_suite import output
from tests.engines.local.looking import folder_of, is_running

J = ref("j-1")


def test_a_job_tells_that_its_work_is_safe(stand: LocalStand, tmp_path: Path) -> None:
    listener = stand.open()
    script = f'touch "$BURSAR_SAVED_FILE"; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done'
    listener.engine.start(order("j-1", script))

    def is_told() -> bool:
        listener.listen(0.1)
        return any(isinstance(report, CheckpointReported) for report in listener.heard)

    until("the checkpoint is reported", is_told)
    (tmp_path / "go").touch()
    listener.ended(J)
    saved = [report for report in listener.heard if isinstance(report, CheckpointReported)]
    assert [(report.job_id, report.attempt) for report in saved] == [("j-1", 1)]
    assert saved[0].at_ms == (folder_of(stand, J) / "saved").stat().st_mtime_ns // 1_000_000


def test_a_note_that_was_lost_is_made_up_for(
    stand: LocalStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_engine, "LOOK_AGAIN_SECONDS", 0.1)
    listener = stand.open()
    (stand.state / "engine" / socket_messages.NOTES_SOCKET).unlink()
    listener.engine.start(order("j-1", "exit 4"))
    assert listener.ended(J).code == 4


def test_what_is_kept_of_an_attempt_stays_until_it_is_forgotten(stand: LocalStand) -> None:
    listener = stand.open()
    recipe = RunSpec(run="echo out; echo made > made", secrets={"TOKEN": "x"})
    listener.engine.start(order("j-1", recipe))
    listener.ended(J)
    engine = listener.engine
    assert isinstance(engine, LocalEngine)
    assert engine.forget(["j-1", "j-none"]) == ("j-1",)
    engine.settled([J])
    until("only what stays is left", lambda: not (folder_of(stand, J) / "run.sh").exists())
    assert output(listener, J) == "out\n"
    assert (folder_of(stand, J) / "work" / "0" / "made").exists()
    assert engine.forget(["j-1"]) == ()
    assert not folder_of(stand, J).parent.exists()


def test_nobody_else_can_look_inside(stand: LocalStand) -> None:
    listener = stand.open()
    listener.engine.start(order("j-1", "echo out"))
    listener.ended(J)
    until("only what stays is left", lambda: not (folder_of(stand, J) / "run.sh").exists())
    for path in (stand.state, stand.state / "engine", folder_of(stand, J)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700, path
    for path in folder_of(stand, J).iterdir():
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    address = stand.state / "engine" / socket_messages.WARDEN_SOCKET
    assert stat.S_IMODE(address.stat().st_mode) & 0o077 == 0


@pytest.mark.parametrize(
    "job_id", ["../x", "a/b", "", ".", "..", "j-1\n", "j-1@2", "x" * 300, "-rf"]
)
def test_an_id_that_could_leave_the_state_folder_is_our_bug(tmp_path: Path, job_id: str) -> None:
    with pytest.raises(BadJobId):
        AttemptFolder(str(tmp_path), job_id, 1)
    with pytest.raises(BrokenInvariant):
        LocalEngine(LocalSettings(state=tmp_path)).logs(ref(job_id))


def test_an_engine_that_is_not_open_says_so(tmp_path: Path) -> None:
    engine = LocalEngine(LocalSettings(state=tmp_path))
    with pytest.raises(EngineFault, match="not open"):
        engine.start(order("j-1", "true"))
    with pytest.raises(EngineFault, match="not open"):
        engine.reports(0)


def test_a_full_disk_refuses_the_order_and_leaves_no_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_folders(str(tmp_path))
    folder = AttemptFolder(str(tmp_path), "j-1", 1)

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            folder.take({"key": "0"})
    assert not folder.is_taken
    mark = folder.take({"key": "0"})
    assert mark is not None
    os.close(mark)
    assert folder.take({"key": "1"}) is None


def test_the_end_of_an_attempt_is_whole_or_absent(tmp_path: Path) -> None:
    make_folders(str(tmp_path))
    folder = AttemptFolder(str(tmp_path), "j-1", 1)
    os.makedirs(folder.path)
    folder.reserve_end()
    assert folder.read("ended") is None
    folder.write_end({"code": 0, "at_ms": 7})
    assert json.loads(Path(folder.file("ended")).read_text()) == {"code": 0, "at_ms": 7}


def test_a_warden_of_another_version_retires_and_its_jobs_stay(
    stand: LocalStand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = stand.open()
    old = stand.warden_pid()
    first.engine.start(order("j-1", f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; exit 9"))
    first.started(J)
    real = socket_messages.receive

    def of_another_version(stream: object) -> dict[str, object] | None:
        answer = real(stream)  # type: ignore[arg-type]
        return {**answer, "version": 0} if answer and answer.get("pid") == old else answer

    monkeypatch.setattr(socket_messages, "receive", of_another_version)
    second = stand.open([J])
    assert stand.warden_pid() != old
    until("the old warden has gone", lambda: not is_running(old))
    (tmp_path / "go").touch()
    assert second.ended(J).code == 9


def test_nodes_are_gone_only_when_no_warden_can_be_started(
    stand: LocalStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = LocalSettings(state=stand.state, nodes=("a", "b"), warden_linger_seconds=0.3)
    listener = stand.open_with(settings)
    monkeypatch.setattr(local_engine, "LOOK_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(local_engine, "GONE_AFTER_SECONDS", 0.05)

    def refuse(self: SupervisorClient) -> None:
        raise EngineFault("no process can be started", retry_after_seconds=1.0)

    def heard(kind: type[NodeLostReported] | type[NodeBackReported]) -> list[str]:
        listener.listen(0.05)
        return [report.node for report in listener.heard if isinstance(report, kind)]

    with monkeypatch.context() as broken:
        broken.setattr(SupervisorClient, "keep_up", refuse)
        until("the nodes are gone", lambda: heard(NodeLostReported) == ["a", "b"])
        assert heard(NodeBackReported) == []
    until("the nodes are back", lambda: heard(NodeBackReported) == ["a", "b"])


def test_the_state_folder_may_have_a_long_name(tmp_path: Path) -> None:
    """Addresses of sockets are short; paths are not."""
    stand = LocalStand(tmp_path / ("long" * 30) / "state")
    try:
        listener = stand.open()
        listener.engine.start(order("j-1", "exit 1"))
        assert listener.ended(J).code == 1
    finally:
        stand.clear()


def test_nonsense_on_the_socket_ends_the_connection_and_nothing_else(stand: LocalStand) -> None:
    listener = stand.open()
    folder_fd = socket_messages.open_folder(str(stand.state / "engine"))
    path = socket_messages.short_path(folder_fd, socket_messages.WARDEN_SOCKET)
    for text in (b"\xff\xff\xff\xff", b"\0\0\0\4nope", b"\0\0\0\2{"):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(path)
            stranger.sendall(text)
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(path)
        send(stranger, {"do": "dance"})
        answer = receive(stranger)
        assert answer is not None and not answer["ok"] and "dance" in answer["problem"]
    os.close(folder_fd)
    listener.engine.close()
    again = stand.open()
    again.engine.start(order("j-1", "exit 1"))
    assert again.ended(J).code == 1
