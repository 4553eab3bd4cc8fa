"""What the local engine adds to what every engine guarantees."""

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
from bursar.model.errors import BrokenInvariant, EngineFault
from bursar.model.event import CheckpointSaved, NodeLost, NodeRestored
from bursar.model.jobs.run_spec import RunSpec
from tests.conformance.engine_harness import LocalHarness, until
from tests.conformance.engine_orders import order, ref
from tests.conformance.engine_suite import output
from tests.engines.local.inspect_processes import folder_of, is_running

J = ref("j-1")


def test_a_saved_checkpoint_is_reported(harness: LocalHarness, tmp_path: Path) -> None:
    listener = harness.open()
    script = f'touch "$BURSAR_SAVED_FILE"; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done'
    listener.engine.start(order("j-1", script))

    def is_reported() -> bool:
        listener.listen(0.1)
        return any(isinstance(report, CheckpointSaved) for report in listener.received)

    until("the checkpoint is reported", is_reported)
    (tmp_path / "go").touch()
    listener.ended(J)
    saved = [report for report in listener.received if isinstance(report, CheckpointSaved)]
    assert [(report.job_id, report.attempt) for report in saved] == [("j-1", 1)]
    assert saved[0].at_ms == (folder_of(harness, J) / "saved").stat().st_mtime_ns // 1_000_000


def test_an_end_is_reported_although_its_datagram_was_lost(
    harness: LocalHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_engine, "POLL_SECONDS", 0.1)
    listener = harness.open()
    (harness.state / "engine" / socket_messages.NOTIFY_SOCKET).unlink()
    listener.engine.start(order("j-1", "exit 4"))
    assert listener.ended(J).code == 4


def test_output_and_working_directory_stay_after_the_end(harness: LocalHarness) -> None:
    listener = harness.open()
    recipe = RunSpec(run="echo out; echo made > made", secrets={"TOKEN": "x"})
    listener.engine.start(order("j-1", recipe))
    listener.ended(J)
    listener.engine.settled([J])
    until("runtime files are removed", lambda: not (folder_of(harness, J) / "run.sh").exists())
    assert output(listener, J) == "out\n"
    assert (folder_of(harness, J) / "work" / "0" / "made").exists()


def test_files_are_readable_only_by_their_owner(harness: LocalHarness) -> None:
    listener = harness.open()
    listener.engine.start(order("j-1", "echo out"))
    listener.ended(J)
    until("runtime files are removed", lambda: not (folder_of(harness, J) / "run.sh").exists())
    for path in (harness.state, harness.state / "engine", folder_of(harness, J)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700, path
    for path in folder_of(harness, J).iterdir():
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    address = harness.state / "engine" / socket_messages.SUPERVISOR_SOCKET
    assert stat.S_IMODE(address.stat().st_mode) & 0o077 == 0


@pytest.mark.parametrize(
    "job_id", ["../x", "a/b", "", ".", "..", "j-1\n", "j-1@2", "x" * 300, "-rf"]
)
def test_an_id_that_could_leave_the_state_folder_breaks_an_invariant(
    tmp_path: Path, job_id: str
) -> None:
    with pytest.raises(BadJobId):
        AttemptFolder(str(tmp_path), job_id, 1)
    with pytest.raises(BrokenInvariant):
        LocalEngine(LocalSettings(state=tmp_path)).logs(ref(job_id))


def test_an_engine_that_is_not_open_raises_a_fault(tmp_path: Path) -> None:
    engine = LocalEngine(LocalSettings(state=tmp_path))
    with pytest.raises(EngineFault, match="not open"):
        engine.start(order("j-1", "true"))
    with pytest.raises(EngineFault, match="not open"):
        engine.reports(0)


def test_a_full_disk_refuses_the_order_and_leaves_no_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_folders(str(tmp_path))
    folder = AttemptFolder(str(tmp_path), "j-1", 1)

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            folder.claim({"key": "0"})
    assert not folder.is_claimed
    claim = folder.claim({"key": "0"})
    assert claim is not None
    os.close(claim)
    assert folder.claim({"key": "1"}) is None


def test_the_end_of_an_attempt_is_written_atomically(tmp_path: Path) -> None:
    make_folders(str(tmp_path))
    folder = AttemptFolder(str(tmp_path), "j-1", 1)
    os.makedirs(folder.path)
    folder.reserve_end()
    assert folder.read("ended") is None
    folder.write_end({"code": 0, "at_ms": 7})
    assert json.loads(Path(folder.file("ended")).read_text()) == {"code": 0, "at_ms": 7}


def test_a_supervisor_of_another_version_retires_and_its_jobs_keep_running(
    harness: LocalHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = harness.open()
    old = harness.supervisor_pid()
    first.engine.start(order("j-1", f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; exit 9"))
    first.started(J)
    real = socket_messages.receive

    def of_another_version(stream: object) -> dict[str, object] | None:
        response = real(stream)  # type: ignore[arg-type]
        return {**response, "version": 0} if response and response.get("pid") == old else response

    monkeypatch.setattr(socket_messages, "receive", of_another_version)
    second = harness.open([J])
    assert harness.supervisor_pid() != old
    until("the old supervisor has exited", lambda: not is_running(old))
    (tmp_path / "go").touch()
    assert second.ended(J).code == 9


def test_nodes_are_lost_only_when_no_supervisor_can_be_started(
    harness: LocalHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = LocalSettings(state=harness.state, nodes=("a", "b"), supervisor_linger_seconds=0.3)
    listener = harness.open_with(settings)
    monkeypatch.setattr(local_engine, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(local_engine, "NODES_LOST_AFTER_SECONDS", 0.05)

    def refuse(self: SupervisorClient) -> None:
        raise EngineFault("no process can be started", retry_after_seconds=1.0)

    def reported(kind: type[NodeLost] | type[NodeRestored]) -> list[str]:
        listener.listen(0.05)
        return [report.node for report in listener.received if isinstance(report, kind)]

    with monkeypatch.context() as broken:
        broken.setattr(SupervisorClient, "ensure_connected", refuse)
        until("the nodes are lost", lambda: reported(NodeLost) == ["a", "b"])
        assert reported(NodeRestored) == []
    until("the nodes are back", lambda: reported(NodeRestored) == ["a", "b"])


def test_the_state_folder_may_have_a_long_name(tmp_path: Path) -> None:
    """Socket addresses are limited to 107 bytes."""
    harness = LocalHarness(tmp_path / ("long" * 30) / "state")
    try:
        listener = harness.open()
        listener.engine.start(order("j-1", "exit 1"))
        assert listener.ended(J).code == 1
    finally:
        harness.clear()


def test_invalid_messages_end_the_connection_and_nothing_else(harness: LocalHarness) -> None:
    listener = harness.open()
    folder_fd = socket_messages.open_folder(str(harness.state / "engine"))
    path = socket_messages.short_path(folder_fd, socket_messages.SUPERVISOR_SOCKET)
    for text in (b"\xff\xff\xff\xff", b"\0\0\0\4nope", b"\0\0\0\2{"):
        with socket.socket(socket.AF_UNIX) as other_client:
            other_client.connect(path)
            other_client.sendall(text)
    with socket.socket(socket.AF_UNIX) as other_client:
        other_client.connect(path)
        send(other_client, {"do": "dance"})
        response = receive(other_client)
        assert response is not None and not response["ok"] and "dance" in response["problem"]
    os.close(folder_fd)
    listener.engine.close()
    again = harness.open()
    again.engine.start(order("j-1", "exit 1"))
    assert again.ended(J).code == 1
