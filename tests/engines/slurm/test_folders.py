"""What control plane and nodes leave for each other on disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bursar.engines.slurm.driven import job_messages as news_module
from bursar.engines.slurm.driven.attempt_folder import (
    SUBMISSION,
    AttemptFolders,
    EndRecord,
    SlurmAttemptFolder,
)
from bursar.engines.slurm.driven.job_messages import JobMessages
from tests.conformance.engine_orders import ref


def leave_word(news: JobMessages, node: str, text: str) -> None:
    with open(os.path.join(news.path, node), "a", encoding="utf-8") as file:
        file.write(text)


@pytest.fixture
def news(tmp_path: Path) -> JobMessages:
    return JobMessages(str(tmp_path))


@pytest.fixture
def folder(tmp_path: Path) -> SlurmAttemptFolder:
    folders = AttemptFolders(tmp_path)
    folders.prepare()
    made = folders.of(ref("j-1"))
    made.make(1)
    return made


# -- news ------------------------------------------------------------------------------------------


def test_word_is_taken_once_and_from_every_node(news: JobMessages) -> None:
    assert news.take() == []
    leave_word(news, "n1", "j-2@1\nj-1@1\nj-2@1\n")
    leave_word(news, "n2", "j-3@1\n")
    assert news.take() == ["j-1@1", "j-2@1", "j-3@1"]
    assert news.take() == []
    leave_word(news, "n1", "j-2@2\n")
    assert news.take() == ["j-2@2"]


def test_half_a_line_waits_for_the_rest_of_it(news: JobMessages) -> None:
    leave_word(news, "n1", "j-1@1\nj-2")
    assert news.take() == ["j-1@1"]
    assert news.take() == []
    leave_word(news, "n1", "2@1\n")
    assert news.take() == ["j-22@1"]


def test_a_file_that_grew_long_begins_anew(
    news: JobMessages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(news_module, "MOST_BYTES", 10)
    leave_word(news, "n1", "j-1@1\nj-2@1\n")
    assert news.take() == ["j-1@1", "j-2@1"]
    assert os.path.getsize(os.path.join(news.path, "n1")) == 0
    leave_word(news, "n1", "j-3@1\n")
    assert news.take() == ["j-3@1"]


def test_a_file_that_somebody_cut_is_read_from_its_beginning(news: JobMessages) -> None:
    leave_word(news, "n1", "j-1@1\nj-2@1\n")
    assert len(news.take()) == 2
    Path(news.path, "n1").write_text("j-3@1\n", encoding="utf-8")
    assert news.take() == ["j-3@1"]


def test_word_as_earlier_versions_left_it_is_understood(news: JobMessages) -> None:
    leave_word(news, "j-1@1", "")
    assert news.take() == ["j-1@1"]
    assert os.listdir(news.path) == []


def test_what_is_no_key_is_passed_over(tmp_path: Path) -> None:
    folders = AttemptFolders(tmp_path)
    folders.prepare()
    leave_word(folders.news, "n1", "\x00\x00\n../..@1\nj-1@one\nj-1@1\n")
    assert folders.take_news() == [ref("j-1")]


# -- what an attempt's folder says -----------------------------------------------------------------


def test_a_folder_without_a_mark_says_nothing(folder: SlurmAttemptFolder) -> None:
    assert (folder.tale().began_at_ms, folder.tale().end) == (None, None)


def test_beginning_and_end_are_read_from_the_mark(folder: SlurmAttemptFolder) -> None:
    folder.write("taken", "77\n")
    assert folder.taken_by == "77" and folder.tale().began_at_ms is None
    folder.write("taken", "77\nbegan 12.345678\nended 13.5 4 TERM it said so\n")
    assert folder.tale().began_at_ms == 12_345
    assert folder.tale().end == EndRecord(at_ms=13_500, code=4, told="TERM", detail="it said so")


def test_an_end_that_is_still_being_written_is_none(folder: SlurmAttemptFolder) -> None:
    folder.write("taken", "77\nbegan 12.3\nended 13.5 0 - it sa")
    assert folder.tale().began_at_ms == 12_300 and folder.tale().end is None


def test_an_end_that_was_settled_stays_whatever_a_script_says_later(
    folder: SlurmAttemptFolder,
) -> None:
    settled = EndRecord(at_ms=9_000, code=None, told="", detail="lost")
    folder.write_end(settled)
    folder.write("taken", "77\nbegan 12.3\nended 13.5 0 - \n")
    assert folder.tale().end == settled


def test_files_of_earlier_versions_are_understood(folder: SlurmAttemptFolder) -> None:
    folder.write("taken", "77\n")
    folder.write("began", "12.3\n")
    folder.write("ended", "13.5 0 - \n")
    assert folder.tale().began_at_ms == 12_300
    assert folder.tale().end == EndRecord(at_ms=13_500, code=0, told="", detail="")


@pytest.mark.parametrize("can_link", [True, False])
def test_the_index_needs_no_file_of_its_own_where_links_can_be_made(
    folder: SlurmAttemptFolder, monkeypatch: pytest.MonkeyPatch, can_link: bool
) -> None:
    def refused(_source: str, _target: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    if not can_link:
        monkeypatch.setattr(os, "link", refused)
    folder.keep(SUBMISSION, {"request": 1})
    folder.enter()
    folder.enter()
    assert folder.is_entered and os.stat(folder.file(SUBMISSION)).st_nlink == 1 + can_link
    folder.leave()
    assert not folder.is_entered and folder.read(SUBMISSION) == {"request": 1}
