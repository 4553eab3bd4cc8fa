"""The sidecar: uploads a directory while it changes, and restores it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bursar.sdk.directory_copy import Mirror, settled_since
from bursar.sdk.object_store import FolderObjectStore
from bursar.sdk.signals import PREEMPTED_EXIT
from tests.sdk.writing import environment, reports


def mirror(tmp_path: Path, name: str = "here", keep: int = 2) -> Mirror:
    (tmp_path / name).mkdir(exist_ok=True)
    return Mirror(tmp_path / name, FolderObjectStore(tmp_path / "there"), keep)


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def sync_all(one: Mirror) -> object:
    present = one.scan()
    return one.sync(present, present)


def read(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_synced_files_are_restored(tmp_path: Path) -> None:
    one = mirror(tmp_path)
    write(tmp_path / "here", a="1", b__c="2")
    assert sync_all(one) is not None
    assert sync_all(one) is None
    two = mirror(tmp_path, "elsewhere")
    write(tmp_path / "elsewhere", a="half")
    assert two.restore() == 2
    assert read(tmp_path / "elsewhere") == {"a": "1", "b/c": "2"}
    assert sync_all(two) is None


def test_equal_content_is_uploaded_once_and_old_content_removed(tmp_path: Path) -> None:
    one = mirror(tmp_path, keep=2)
    for text in ("1", "22", "333", "4444"):
        write(tmp_path / "here", a=text, same="same")
        synced = sync_all(one)
        assert synced is not None
        assert synced.uploaded_bytes == len(text) + (4 if text == "1" else 0)
    kept = FolderObjectStore(tmp_path / "there").names()
    assert [name for name in kept if name.startswith("snapshots/")] == [
        "snapshots/00000003.json",
        "snapshots/00000004.json",
    ]
    assert len([name for name in kept if name.startswith("content/")]) == 3


def test_a_folder_is_uploaded_only_when_all_of_it_has_settled(tmp_path: Path) -> None:
    one = mirror(tmp_path)
    write(tmp_path / "here", step1__a="1", step1__b="1")
    sync_all(one)
    write(tmp_path / "here", step1__a="2", step2__a="2", other="x")
    present = one.scan()
    settled = {name: state for name, state in present.items() if name != "step2/a"}
    del settled["step1/a"]
    one.sync(settled, present)
    two = mirror(tmp_path, "elsewhere")
    two.restore()
    assert read(tmp_path / "elsewhere") == {"other": "x", "step1/a": "1", "step1/b": "1"}


def test_a_file_that_changes_during_the_upload_is_not_stored(tmp_path: Path) -> None:
    class Slow(FolderObjectStore):
        def put(self, path: Path, name: str) -> None:
            super().put(path, name)
            path.write_text("longer than before")

    (tmp_path / "here").mkdir()
    one = Mirror(tmp_path / "here", Slow(tmp_path / "there"), 2)
    write(tmp_path / "here", a="1")
    with pytest.raises(OSError, match="a changed while it was uploaded"):
        sync_all(one)
    assert FolderObjectStore(tmp_path / "there").names() == []


def test_a_torn_snapshot_is_skipped_and_reported(tmp_path: Path) -> None:
    one = mirror(tmp_path)
    for text in ("1", "2"):
        write(tmp_path / "here", a=text)
        sync_all(one)
    newest = tmp_path / "there" / "snapshots" / "00000002.json"
    newest.write_text(newest.read_text()[:-20])
    two = mirror(tmp_path, "elsewhere")
    assert two.restore() == 1
    assert read(tmp_path / "elsewhere") == {"a": "1"}
    assert two.skipped == ["snapshot 2: the manifest is truncated or damaged"]


def test_a_file_has_settled_when_two_scans_agree_and_it_is_quiet(tmp_path: Path) -> None:
    one = mirror(tmp_path)
    write(tmp_path / "here", old="1", new="1", grown="1", _hidden="1")
    (tmp_path / "here" / "_hidden").rename(tmp_path / "here" / ".hidden")
    an_hour_ago = time.time() - 3_600
    for name in ("old", "grown"):
        os.utime(tmp_path / "here" / name, (an_hour_ago, an_hour_ago))
    first = one.scan()
    write(tmp_path / "here", grown="11")
    os.utime(tmp_path / "here" / "grown", (an_hour_ago, an_hour_ago))
    assert sorted(settled_since(first, one.scan(), 60)) == ["old"]


# -- the program ---------------------------------------------------------------------------------------


def watch(*arguments: str, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bursar.sdk.watch", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**env),
    )


JOB = """
import pathlib, signal, sys, time
file = pathlib.Path(sys.argv[1]) / "count"
count = int(file.read_text()) if file.exists() else 0
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
(pathlib.Path(sys.argv[1]) / "ready").write_text("")
while count < 5 or len(sys.argv) > 2 and not stopped:
    count += 1
    time.sleep(0.01)
file.write_text(str(count))
sys.exit(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
"""


def watch_job(tmp_path: Path, name: str, *more: str, **env: str) -> subprocess.Popen[str]:
    locations = ("--directory", str(tmp_path / name), "--to", str(tmp_path / "there"))
    return watch(
        *locations,
        "--every",
        "0.1",
        "--",
        sys.executable,
        "-c",
        JOB,
        str(tmp_path / name),
        *more,
        **env,
    )


def test_a_command_is_run_and_its_last_files_are_uploaded(tmp_path: Path) -> None:
    env = {"BURSAR_SAVED_FILE": str(tmp_path / "reports")}
    one = watch_job(tmp_path, "here", **env)
    output = one.communicate(timeout=60)[1]
    assert one.returncode == 0, output
    assert "nothing to restore" in output
    assert [line["kind"] for line in reports(tmp_path / "reports")][-1:] == ["saved"]
    two = watch_job(tmp_path, "elsewhere", **env)
    assert "restored 2 files" in two.communicate(timeout=60)[1]
    assert (tmp_path / "elsewhere" / "count").read_text() == "5"
    assert "resumed" in [line["kind"] for line in reports(tmp_path / "reports")]


def test_a_stop_signal_is_forwarded_and_the_exit_code_asks_for_a_rerun(tmp_path: Path) -> None:
    one = watch_job(tmp_path, "here", "until stopped")
    while not (tmp_path / "here" / "ready").exists():
        assert one.poll() is None
        time.sleep(0.02)
    one.send_signal(signal.SIGTERM)
    output = one.communicate(timeout=60)[1]
    assert one.returncode == PREEMPTED_EXIT, output
    copy = mirror(tmp_path, "copy")
    copy.restore()
    assert int(read(tmp_path / "copy")["count"]) >= 5


def test_the_last_files_of_a_failed_command_are_not_uploaded(tmp_path: Path) -> None:
    one = watch_job(tmp_path, "here", "until stopped", "7")
    while not (tmp_path / "here" / "ready").exists():
        assert one.poll() is None
        time.sleep(0.02)
    one.send_signal(signal.SIGTERM)
    one.communicate(timeout=60)
    assert one.returncode == 7
    assert mirror(tmp_path, "copy").restore() is None


def test_a_sidecar_exits_on_sigterm(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    write(tmp_path / "here", a="1")
    locations = ("--directory", str(tmp_path / "here"), "--to", str(tmp_path / "there"))
    one = watch(*locations, "--every", "0.1", "--quiet", "0")
    while not (tmp_path / "there" / "snapshots").exists():
        assert one.poll() is None
        time.sleep(0.02)
    one.send_signal(signal.SIGTERM)
    one.communicate(timeout=60)
    assert one.returncode == 0
    again = watch("--directory", str(tmp_path / "back"), *locations[2:], "--restore-only")
    again.communicate(timeout=60)
    assert (again.returncode, read(tmp_path / "back")) == (0, {"a": "1"})


def test_a_missing_program_is_reported(tmp_path: Path) -> None:
    locations = ("--directory", str(tmp_path / "here"), "--to", str(tmp_path / "there"))
    one = watch(*locations, "--", "no-such-program")
    assert "no-such-program cannot be run" in one.communicate(timeout=60)[1]
    assert one.returncode == 127
