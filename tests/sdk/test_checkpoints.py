"""Saving and resuming in one process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bursar.sdk import CheckpointProblem, checkpointing
from bursar.sdk.errors import StaleAttempt
from tests.sdk.writing import is_exact, reports, writer


@pytest.fixture(autouse=True)
def _outside_bursar(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "BURSAR_JOB_ID", "BURSAR_ATTEMPT", "BURSAR_SAVED_FILE"):
        monkeypatch.delenv(name, raising=False)


def save(location: Path, *steps: int, keep: int = 3) -> None:
    with checkpointing(location, keep=keep) as run:
        for step in steps:
            run.save(step, writer(step))


def names(location: Path) -> list[str]:
    return sorted(os.listdir(location))


def test_an_empty_location_has_nothing_to_resume(tmp_path: Path) -> None:
    with checkpointing(tmp_path / "new" / "location") as run:
        assert run.resume() is None
        assert run.skipped == []


def test_the_newest_is_resumed_and_the_last_ones_are_kept(tmp_path: Path) -> None:
    save(tmp_path, 10, 20, 30, keep=2)
    assert names(tmp_path) == ["00000002-step-20", "00000003-step-30"]
    with checkpointing(tmp_path) as run:
        found = run.resume()
        assert found is not None and found.step == 30 and is_exact(found)
        older = run.resume(step=20)
        assert older is not None and older.step == 20 and is_exact(older)
        assert run.resume(step=99) is None


def test_the_last_saved_is_the_newest_even_with_a_lower_step(tmp_path: Path) -> None:
    save(tmp_path, 300)
    save(tmp_path, 100)
    with checkpointing(tmp_path) as run:
        found = run.resume()
        assert found is not None and found.step == 100


def test_a_step_may_be_saved_twice(tmp_path: Path) -> None:
    save(tmp_path, 5, 5)
    assert names(tmp_path) == ["00000001-step-5", "00000002-step-5"]


def test_a_torn_checkpoint_is_skipped_and_removed_by_the_next_save(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save(tmp_path, 1, 2)
    (tmp_path / "00000002-step-2" / "model.bin").write_bytes(b"short")
    with checkpointing(tmp_path, keep=1) as run:
        found = run.resume()
        assert found is not None and found.step == 1
        assert [skipped.name for skipped in run.skipped] == ["00000002-step-2"]
        assert run.skipped[0].why == "model.bin has 5 bytes instead of 720"
        assert "00000002-step-2" in caplog.text and "5 bytes" in caplog.text
        run.save(3, writer(3))
    assert names(tmp_path) == ["00000003-step-3"]


TORN = {
    "a file is missing": (lambda f: (f / "model.bin").unlink(), "model.bin is missing"),
    "there is an extra file": (lambda f: (f / "x").touch(), "x is not in the manifest"),
    "the manifest is missing": (lambda f: (f / "manifest.json").unlink(), "it has no manifest"),
    "the manifest is empty": (
        lambda f: (f / "manifest.json").write_text(""),
        "the manifest is truncated or damaged",
    ),
    "the manifest is of another step": (
        lambda f: (f / "manifest.json").write_text(
            (f.parent / "00000001-step-1" / "manifest.json").read_text()
        ),
        "its manifest is that of step 1",
    ),
}


@pytest.mark.parametrize("what", TORN)
def test_torn_checkpoints_are_skipped_with_a_reason(what: str, tmp_path: Path) -> None:
    tear, why = TORN[what]
    save(tmp_path, 1, 2)
    tear(tmp_path / "00000002-step-2")
    with checkpointing(tmp_path) as run:
        found = run.resume()
        assert found is not None and found.step == 1
        assert [skipped.why for skipped in run.skipped] == [why]


def test_a_failed_write_leaves_nothing_and_is_raised(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise ValueError("no space for this")

    save(tmp_path, 1)
    with checkpointing(tmp_path) as run:
        with pytest.raises(ValueError, match="no space"):
            run.save(2, fail)
        assert names(tmp_path) == ["00000001-step-1"]


MISTAKES = {
    "nothing written": (lambda run: run.save(1, lambda _: None), "nothing was written"),
    "a link": (
        lambda run: run.save(1, lambda folder: (folder / "l").symlink_to("elsewhere")),
        "contains a link, l",
    ),
    "a link to a folder": (
        lambda run: run.save(1, lambda folder: (folder / "l").symlink_to(folder.parent)),
        "contains a link, l",
    ),
    "a step that is not an integer": (lambda run: run.save(1.5, writer(1)), "1.5 is not a step"),
    "a negative step": (lambda run: run.save(-1, writer(1)), "-1 is not a step"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_mistakes_are_rejected_with_a_clear_message(what: str, tmp_path: Path) -> None:
    mistake, problem = MISTAKES[what]
    with checkpointing(tmp_path) as run, pytest.raises(CheckpointProblem, match=problem):
        mistake(run)
    assert names(tmp_path) == []


def test_keeping_no_checkpoint_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(CheckpointProblem, match="keep=0"), checkpointing(tmp_path, keep=0):
        pass


def test_nested_use_is_rejected_and_repeated_use_is_not(tmp_path: Path) -> None:
    refused = pytest.raises(CheckpointProblem, match=r"in use in this process.*use its run")
    with checkpointing(tmp_path / "a"), refused, checkpointing(tmp_path / "b"):
        pass
    with checkpointing(tmp_path / "b"):
        pass


def test_only_the_first_rank_saves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURSAR_SAVED_FILE", str(tmp_path / "reports"))
    save(tmp_path / "c", 1)
    (tmp_path / "reports").unlink()
    monkeypatch.setenv("RANK", "3")
    with checkpointing(tmp_path / "c") as run:
        assert run.save(2, writer(2)) is None
        assert not run.saves
        found = run.resume()
        assert found is not None and found.step == 1
        run.progress(1)
    assert names(tmp_path / "c") == ["00000001-step-1"]
    assert reports(tmp_path / "reports") == []


def test_every_rank_may_save_in_its_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in ("0", "3"):
        monkeypatch.setenv("RANK", rank)
        with checkpointing(tmp_path, every_rank=True) as run:
            run.save(7, writer(7))
            assert run.steps() == [7]
    assert names(tmp_path) == ["rank-00000", "rank-00003"]


def test_an_earlier_attempt_cannot_save_over_a_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURSAR_JOB_ID", "j-1")
    monkeypatch.setenv("BURSAR_ATTEMPT", "3")
    save(tmp_path, 30)
    monkeypatch.setenv("BURSAR_ATTEMPT", "2")
    refused = pytest.raises(StaleAttempt, match="attempt 3 of this job has already saved step 30")
    with checkpointing(tmp_path) as run, refused:
        run.save(25, writer(25))
    assert names(tmp_path) == ["00000001-step-30"]
    monkeypatch.setenv("BURSAR_JOB_ID", "j-2")
    monkeypatch.setenv("BURSAR_ATTEMPT", "1")
    save(tmp_path, 31)


def test_saves_resumes_and_progress_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURSAR_SAVED_FILE", str(tmp_path / "reports"))
    with checkpointing(tmp_path / "c") as run:
        run.progress(1, 4)
        run.progress(2, 4)
        run.save(2, writer(2))
        run.progress(4, 4)
    with checkpointing(tmp_path / "c") as run:
        run.resume()
    lines = reports(tmp_path / "reports")
    assert [(line["kind"], line["step"]) for line in lines] == [
        ("progress", 1),
        ("saved", 2),
        ("progress", 4),
        ("resumed", 2),
    ]
    assert lines[0]["total"] == 4
    assert lines[1]["bytes"] == sum(map(len, (b"2", b"weights of step 2 " * 40)))
    assert lines[1]["seconds"] >= 0 and lines[1]["at_ms"] <= lines[2]["at_ms"]


def test_a_report_that_cannot_be_written_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURSAR_SAVED_FILE", str(tmp_path / "no" / "such" / "folder"))
    save(tmp_path / "c", 1)
    assert names(tmp_path / "c") == ["00000001-step-1"]
