"""The files that control plane and nodes share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bursar.engines.slurm.driven import attempt_folder
from bursar.engines.slurm.driven.attempt_folder import (
    SUBMISSION,
    AttemptFolders,
    EndRecord,
    JobMessages,
    SlurmAttemptFolder,
)
from tests.conformance.engine_orders import ref


def append(messages: JobMessages, node: str, text: str) -> None:
    with open(os.path.join(messages.path, node), "a", encoding="utf-8") as file:
        file.write(text)


@pytest.fixture
def messages(tmp_path: Path) -> JobMessages:
    return JobMessages(str(tmp_path))


@pytest.fixture
def folder(tmp_path: Path) -> SlurmAttemptFolder:
    folders = AttemptFolders(tmp_path)
    folders.prepare()
    made = folders.of(ref("j-1"))
    made.create(1)
    return made


# -- messages --------------------------------------------------------------------------------------


def test_messages_of_every_node_are_taken_once(messages: JobMessages) -> None:
    assert messages.take() == []
    append(messages, "n1", "j-2@1\nj-1@1\nj-2@1\n")
    append(messages, "n2", "j-3@1\n")
    assert messages.take() == ["j-1@1", "j-2@1", "j-3@1"]
    assert messages.take() == []
    append(messages, "n1", "j-2@2\n")
    assert messages.take() == ["j-2@2"]


def test_an_incomplete_line_is_read_when_it_is_complete(messages: JobMessages) -> None:
    append(messages, "n1", "j-1@1\nj-2")
    assert messages.take() == ["j-1@1"]
    assert messages.take() == []
    append(messages, "n1", "2@1\n")
    assert messages.take() == ["j-22@1"]


def test_a_long_file_is_truncated(messages: JobMessages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_folder, "MOST_MESSAGE_BYTES", 10)
    append(messages, "n1", "j-1@1\nj-2@1\n")
    assert messages.take() == ["j-1@1", "j-2@1"]
    assert os.path.getsize(os.path.join(messages.path, "n1")) == 0
    append(messages, "n1", "j-3@1\n")
    assert messages.take() == ["j-3@1"]


def test_a_truncated_file_is_read_from_its_beginning(messages: JobMessages) -> None:
    append(messages, "n1", "j-1@1\nj-2@1\n")
    assert len(messages.take()) == 2
    Path(messages.path, "n1").write_text("j-3@1\n", encoding="utf-8")
    assert messages.take() == ["j-3@1"]


def test_invalid_keys_are_ignored(tmp_path: Path) -> None:
    folders = AttemptFolders(tmp_path)
    folders.prepare()
    append(folders.messages, "n1", "\x00\x00\n../..@1\nj-1@one\nj-1@1\n")
    assert folders.take_messages() == [ref("j-1")]


# -- records of an attempt ------------------------------------------------------------------------


def test_a_folder_without_a_claim_has_no_record(folder: SlurmAttemptFolder) -> None:
    assert (folder.record().began_at_ms, folder.record().end) == (None, None)


def test_beginning_and_end_are_read_from_the_claim(folder: SlurmAttemptFolder) -> None:
    folder.write("claim", "77\n")
    assert folder.claimed_by == "77" and folder.record().began_at_ms is None
    folder.write("claim", "77\nbegan 12.345678\nended 13.5 4 TERM out of memory\n")
    assert folder.record().began_at_ms == 12_345
    assert folder.record().end == EndRecord(
        at_ms=13_500, code=4, stop_signal="TERM", detail="out of memory"
    )


def test_an_end_that_is_still_being_written_is_ignored(folder: SlurmAttemptFolder) -> None:
    folder.write("claim", "77\nbegan 12.3\nended 13.5 0 - it sa")
    assert folder.record().began_at_ms == 12_300 and folder.record().end is None


def test_an_end_recorded_by_the_engine_takes_precedence(
    folder: SlurmAttemptFolder,
) -> None:
    settled = EndRecord(at_ms=9_000, code=None, stop_signal="", detail="lost")
    folder.write_end(settled)
    folder.write("claim", "77\nbegan 12.3\nended 13.5 0 - \n")
    assert folder.record().end == settled


@pytest.mark.parametrize("can_link", [True, False])
def test_the_index_uses_a_hard_link_where_that_is_possible(
    folder: SlurmAttemptFolder, monkeypatch: pytest.MonkeyPatch, can_link: bool
) -> None:
    def refused(_source: str, _target: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    if not can_link:
        monkeypatch.setattr(os, "link", refused)
    entry = folder._entry
    folder.write_record(SUBMISSION, {"request": 1})
    folder.add_to_index()
    folder.add_to_index()
    assert os.path.exists(entry) and os.stat(folder.file(SUBMISSION)).st_nlink == 1 + can_link
    folder.remove_from_index()
    assert not os.path.exists(entry) and folder.read_record(SUBMISSION, dict[str, int]) == {
        "request": 1
    }
