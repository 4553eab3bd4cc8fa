"""Status files of jobs become reports, whatever else they contain."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.engines.status_file import MOST_BYTES, StatusFile
from bursar.model.engine_report import Progressed, StopAcknowledged
from bursar.model.event import AttemptResumed, CheckpointSaved
from bursar.ports import AttemptRef

REF = AttemptRef(job_id="j", attempt=2)
NAMED = {"job_id": "j", "attempt": 2}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "saved"


def append(path: Path, *lines: object) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def line(kind: str, at_ms: int, **more: object) -> dict[str, object]:
    return {"kind": kind, "at_ms": at_ms, **more}


def test_each_kind_is_reported_once(path: Path) -> None:
    file = StatusFile(str(path), REF)
    assert file.new_reports() == []
    append(path, line("resumed", 1, step=10, bytes=5, seconds=0.25), line("progress", 2, step=11))
    assert file.new_reports() == [
        AttemptResumed(**NAMED, at_ms=1, step=10),
        Progressed(**NAMED, at_ms=2, step=11),
    ]
    assert file.new_reports() == []
    append(path, line("saved", 3, step=12, bytes=700, seconds=1.5))
    assert file.new_reports() == [
        CheckpointSaved(**NAMED, at_ms=3, step=12, save_ms=1_500, size_bytes=700)
    ]


def test_a_stop_is_reported_with_its_source(path: Path) -> None:
    append(path, line("stopping", 4, source="slurm", ends_at_ms=9), line("saved", 5))
    append(path, line("stopping", 6, source=["x"] * 99, ends_at_ms="soon"))
    file = StatusFile(str(path), REF)
    saved, stop = file.new_reports()
    assert saved == CheckpointSaved(**NAMED, at_ms=5)
    assert isinstance(stop, StopAcknowledged) and len(stop.source) == 40 and stop.ends_at_ms is None
    append(path, line("stopping", 7, source="slurm", ends_at_ms=9))
    assert file.new_reports() == [StopAcknowledged(**NAMED, at_ms=7, source="slurm", ends_at_ms=9)]


def test_only_the_newest_of_each_kind_is_reported(path: Path) -> None:
    append(
        path,
        *(line("saved", at, step=at) for at in range(5)),
        line("progress", 9, step=9, total=20),
    )
    append(path, line("saved", 10, step=10))
    assert StatusFile(str(path), REF).new_reports() == [
        Progressed(**NAMED, at_ms=9, step=9, total=20),
        CheckpointSaved(**NAMED, at_ms=10, step=10),
    ]


def test_a_touch_reports_a_checkpoint(path: Path) -> None:
    file = StatusFile(str(path), REF)
    path.touch()
    os.utime(path, ns=(7_000_000, 7_000_000))
    assert file.new_reports() == [CheckpointSaved(**NAMED, at_ms=7)]
    append(path, line("progress", 8, step=1))
    os.utime(path, ns=(8_000_000, 8_000_000))
    assert file.new_reports() == [Progressed(**NAMED, at_ms=8, step=1)]
    os.utime(path, ns=(9_000_000, 9_000_000))
    assert file.new_reports() == [CheckpointSaved(**NAMED, at_ms=9)]


def test_other_text_counts_as_a_touch(path: Path) -> None:
    path.write_text("saved at noon\n")
    os.utime(path, ns=(7_000_000, 7_000_000))
    assert StatusFile(str(path), REF).new_reports() == [CheckpointSaved(**NAMED, at_ms=7)]


def test_an_incomplete_line_is_read_when_it_is_complete(path: Path) -> None:
    file = StatusFile(str(path), REF)
    text = json.dumps(line("saved", 5, step=3)) + "\n"
    path.write_text(text[:20])
    assert file.new_reports() == []
    path.write_text(text)
    assert file.new_reports() == [CheckpointSaved(**NAMED, at_ms=5, step=3)]


def test_kinds_of_a_later_version_are_ignored(path: Path) -> None:
    append(path, line("measured", 5, step=3))
    assert StatusFile(str(path), REF).new_reports() == []


def test_a_long_file_is_read_from_its_end(path: Path) -> None:
    path.write_text("x" * (2 * MOST_BYTES) + "\n")
    append(path, line("saved", 5, step=3))
    assert StatusFile(str(path), REF).new_reports() == [CheckpointSaved(**NAMED, at_ms=5, step=3)]


def test_neither_a_pipe_nor_a_link_nor_a_folder_is_read(path: Path, tmp_path: Path) -> None:
    os.mkfifo(path)
    assert StatusFile(str(path), REF).new_reports() == []
    (tmp_path / "link").symlink_to(__file__)
    assert StatusFile(str(tmp_path / "link"), REF).new_reports() == []
    assert StatusFile(str(tmp_path), REF).new_reports() == []


@given(
    lines=st.lists(
        st.binary(max_size=30)
        | st.dictionaries(
            st.sampled_from(["kind", "at_ms", "step", "total", "bytes", "seconds"]),
            st.sampled_from(["saved", "resumed", "progress"])
            | st.integers()
            | st.floats()
            | st.none()
            | st.lists(st.integers(), max_size=2),
        ).map(lambda record: json.dumps(record).encode()),
        max_size=6,
    )
)
def test_reading_never_fails_on_any_content(
    lines: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("status") / "saved"
    path.write_bytes(b"\n".join(lines))
    for report in StatusFile(str(path), REF).new_reports():
        assert (report.job_id, report.attempt) == ("j", 2)
        assert report.at_ms >= 0
        assert report.step is None or report.step >= 0
