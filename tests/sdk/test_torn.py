"""A resumed checkpoint is exactly what was saved, whatever was killed or damaged."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.sdk import checkpointing
from bursar.sdk.checkpoint_store import (
    CheckpointName,
    CheckpointStore,
    FolderCheckpointStore,
    Origin,
)
from bursar.sdk.errors import TornCheckpoint
from bursar.sdk.object_store import FolderObjectStore
from bursar.sdk.remote_store import RemoteCheckpointStore
from tests.sdk.writing import content, is_exact, python, writer

FILES = (*content(2), "manifest.json")


@given(file=st.sampled_from(FILES), where=st.floats(0, 1, exclude_max=True), bit=st.integers(-1, 7))
def test_a_truncated_file_or_flipped_bit_is_detected_anywhere(
    file: str, where: float, bit: int
) -> None:
    """``bit`` -1 truncates the file. A change of white space in the manifest changes nothing."""
    folder = Path(tempfile.mkdtemp())
    try:
        with checkpointing(folder) as run:
            run.save(1, writer(1))
            run.save(2, writer(2))
            path = folder / "00000002-step-2" / file
            text = bytearray(path.read_bytes())
            at = int(where * len(text))
            if bit < 0:
                del text[at:]
            else:
                text[at] ^= 1 << bit
            path.write_bytes(bytes(text))
            found = run.resume()
            assert found is not None and is_exact(found)
            assert found.step == 1 or file == "manifest.json"
            assert (found.step == 1) == bool(run.skipped)
    finally:
        shutil.rmtree(folder)


class PowerOff:
    """Ends this process at its n-th file system call, as ``kill -9`` does."""

    EVENTS = frozenset({"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.listdir"})

    def __init__(self, after: int) -> None:
        self._left = after
        sys.addaudithook(self)

    def __call__(self, event: str, words: object) -> None:
        if event in self.EVENTS:
            self._left -= 1
            if self._left < 0:
                os._exit(9)


def folder_store(folder: Path) -> CheckpointStore:
    return FolderCheckpointStore(folder)


def remote_store(folder: Path) -> CheckpointStore:
    return RemoteCheckpointStore(FolderObjectStore(folder))


def save_and_remove(store: CheckpointStore, step: int) -> None:
    """The steps of a save with ``keep=1``."""
    store.clear_leftovers()
    pending = store.begin(step, step)
    writer(step)(pending.path)
    entry, _ = store.commit(pending, Origin("", 0))
    for older in store.entries():
        if older != entry:
            store.remove(older)


@pytest.mark.parametrize("made", [folder_store, remote_store])
def test_a_kill_between_any_two_calls_leaves_a_complete_checkpoint(
    made: type[CheckpointStore], tmp_path: Path
) -> None:
    """The next save works, too."""
    points, died = 0, True
    while died:
        location = tmp_path / str(points)
        store = made(location)
        save_and_remove(store, 1)
        child = os.fork()
        if child == 0:
            try:
                PowerOff(points)
                save_and_remove(store, 2)
                os._exit(0)
            finally:
                os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, 9)
        died = code == 9
        after = made(location)
        found = [entry for entry in after.entries() if is_complete(after, entry)]
        assert found, f"no complete checkpoint after a kill at point {points}"
        save_and_remove(after, 3)
        assert [entry.step for entry in after.entries()] == [3]
        after.close()
        store.close()
        points += 1
    assert points > 10


def is_complete(store: CheckpointStore, entry: CheckpointName) -> bool:
    try:
        manifest, folder = store.fetch(entry)
    except TornCheckpoint:
        return False
    assert all(
        (folder / name).read_bytes() == text for name, text in content(manifest.step).items()
    )
    return True


SAVES_FOREVER = """
import sys
from bursar.sdk import checkpointing
with checkpointing(sys.argv[1] if len(sys.argv) > 1 else "{location}", keep=2) as run:
    found = run.resume()
    step = found.step if found else 0
    print("from", step)
    while True:
        step += 1
        run.save(step, lambda folder: (folder / "w").write_bytes(step.to_bytes(8, "big") * 20_000))
        print("safe", step)
"""


def test_a_kill_at_a_random_time_loses_no_saved_step(tmp_path: Path) -> None:
    """A step is saved once ``save`` has returned."""
    chance = random.Random(4)
    safe = 0
    for _ in range(6):
        job = python(SAVES_FOREVER.format(location=tmp_path / "c"))
        assert job.stdout is not None
        assert int(job.stdout.readline().split()[1]) >= safe
        for _ in range(chance.randrange(1, 6)):
            job.stdout.readline()
        time.sleep(chance.random() * 0.02)
        job.send_signal(signal.SIGKILL)
        lines = job.communicate()[0].split("\n")[:-1]  # the last line may be truncated
        with checkpointing(tmp_path / "c") as run:
            found = run.resume()
        assert found is not None
        assert (found.path / "w").read_bytes() == found.step.to_bytes(8, "big") * 20_000
        safe = max([safe, *(int(line.split()[1]) for line in lines if line.startswith("safe "))])
        assert found.step >= safe
        safe = found.step
