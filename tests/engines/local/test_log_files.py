"""Log files have a bounded size, and a full disk never ends a task."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from bursar.engines.local.settings import LocalSettings
from bursar.engines.local.supervisor.log_files import LogShare, LogWriter, existing_files
from tests.conformance.engine_harness import LocalHarness
from tests.conformance.engine_orders import order, ref


def read_all(path: Path, files: int) -> str:
    return "".join(Path(part).read_text() for part in existing_files(str(path), files))


@pytest.mark.parametrize("files", [1, 2, 3])
def test_the_newest_output_is_stored_oldest_first(tmp_path: Path, files: int) -> None:
    path = tmp_path / "task-0.out"
    writer = LogWriter(str(path), LogShare(file_bytes=10, files=files))
    for number in range(100):
        writer.write(f"{number:04d}\n".encode())
    writer.close()
    assert len(list(tmp_path.iterdir())) == files
    assert read_all(path, files) == "".join(
        f"{number:04d}\n" for number in range(100 - 2 * files, 100)
    )


def test_a_full_disk_loses_output_and_the_log_states_how_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "task-0.out"
    writer = LogWriter(str(path), LogShare(file_bytes=1 << 20, files=2))
    writer.write(b"before\n")

    def full(self: LogWriter, text: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(LogWriter, "_append", full)
        writer.write(b"lost\n")
        writer.write(b"lost too\n")
    writer.write(b"after\n")
    writer.close()
    assert (
        path.read_text()
        == "before\n\n[bursar: 14 bytes of output were lost here: disk full]\nafter\n"
    )


def test_a_device_that_is_always_full_raises_no_error() -> None:
    writer = LogWriter("/dev/full", LogShare(file_bytes=1 << 20, files=2))
    for _ in range(3):
        writer.write(b"x" * 1000)
    writer.close()


def test_logs_of_a_job_are_rotated(harness: LocalHarness) -> None:
    settings = LocalSettings(
        state=harness.state, log_file_mib=1, log_files=2, supervisor_linger_seconds=0.3
    )
    listener = harness.open_with(settings)
    script = "head -c 3500000 /dev/zero | tr '\\0' x; echo; echo last"
    listener.engine.start(order("j-1", script))
    assert listener.ended(ref("j-1")).code == 0
    (log,) = listener.engine.logs(ref("j-1"))
    sizes = [Path(part).stat().st_size for part in log.paths]
    assert len(sizes) == 2 and all(size <= (1 << 20) + (1 << 16) for size in sizes)
    assert Path(log.paths[-1]).read_text().endswith("x\nlast\n")
    folder = Path(log.paths[0]).parent
    assert len(list(folder.glob("task-0.out*"))) == 2
