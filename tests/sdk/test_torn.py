"""Whatever happens to a checkpoint, what is resumed is exactly what was saved."""

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
def test_cut_off_or_flipped_anywhere(file: str, where: float, bit: int) -> None:
    """``bit`` -1 cuts the file there. White space in the manifest may change: then it says the same."""
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
    """Ends this process at the n-th thing that it asks of the file system, as ``kill -9`` does."""

    EVENTS = frozenset({"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.listdir"})

    def __init__(self, after: int) -> None:
        self._left = after
        sys.addaudithook(self)

    def __call__(self, event: str, words: object) -> None:
        if event in self.EVENTS:
            self._left -= 1
            if self._left < 0:
                os._exit(9)


def folder_shelf(folder: Path) -> CheckpointStore:
    return FolderCheckpointStore(folder)


def remote_shelf(folder: Path) -> CheckpointStore:
    return RemoteCheckpointStore(FolderObjectStore(folder))


def save_and_remove(shelf: CheckpointStore, step: int) -> None:
    """What a save does, with ``keep=1``."""
    shelf.clear_leftovers()
    draft = shelf.begin(step, step)
    writer(step)(draft.path)
    entry, _ = shelf.commit(draft, Origin("", 0))
    for older in shelf.entries():
        if older != entry:
            shelf.remove(older)


@pytest.mark.parametrize("made", [folder_shelf, remote_shelf])
def test_killed_between_any_two_calls(made: type[CheckpointStore], tmp_path: Path) -> None:
    """At every such point there is a whole checkpoint, and the next save works."""
    points, died = 0, True
    while died:
        place = tmp_path / str(points)
        shelf = made(place)
        save_and_remove(shelf, 1)
        child = os.fork()
        if child == 0:
            try:
                PowerOff(points)
                save_and_remove(shelf, 2)
                os._exit(0)
            finally:
                os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, 9)
        died = code == 9
        after = made(place)
        found = [entry for entry in after.entries() if is_whole(after, entry)]
        assert found, f"nothing whole after a kill at point {points}"
        save_and_remove(after, 3)
        assert [entry.step for entry in after.entries()] == [3]
        after.close()
        shelf.close()
        points += 1
    assert points > 10


def is_whole(shelf: CheckpointStore, entry: CheckpointName) -> bool:
    try:
        manifest, folder = shelf.fetch(entry)
    except TornCheckpoint:
        return False
    assert all(
        (folder / name).read_bytes() == text for name, text in content(manifest.step).items()
    )
    return True


SAVES_FOR_EVER = """
import sys
from bursar.sdk import checkpointing
with checkpointing(sys.argv[1] if len(sys.argv) > 1 else "{place}", keep=2) as run:
    found = run.resume()
    step = found.step if found else 0
    print("from", step)
    while True:
        step += 1
        run.save(step, lambda folder: (folder / "w").write_bytes(step.to_bytes(8, "big") * 20_000))
        print("safe", step)
"""


def test_killed_at_random_moments(tmp_path: Path) -> None:
    """No step is lost that a save has returned for."""
    chance = random.Random(4)
    safe = 0
    for _ in range(6):
        job = python(SAVES_FOR_EVER.format(place=tmp_path / "c"))
        assert job.stdout is not None
        assert int(job.stdout.readline().split()[1]) >= safe
        for _ in range(chance.randrange(1, 6)):
            job.stdout.readline()
        time.sleep(chance.random() * 0.02)
        job.send_signal(signal.SIGKILL)
        said = job.communicate()[0].split("\n")[:-1]  # what was cut off says nothing
        with checkpointing(tmp_path / "c") as run:
            found = run.resume()
        assert found is not None
        assert (found.path / "w").read_bytes() == found.step.to_bytes(8, "big") * 20_000
        safe = max([safe, *(int(line.split()[1]) for line in said if line.startswith("safe "))])
        assert found.step >= safe
        safe = found.step
