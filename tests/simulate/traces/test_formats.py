"""Trace files: compressed or plain, with a given or a detected format, or rejected."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
from pathlib import Path

import pytest

from bursar.model.errors import BrokenInvariant, UserError
from bursar.simulate.traces import formats, read_trace
from bursar.simulate.traces.fields import RowProblem, parse_outcome, parse_time
from bursar.simulate.traces.formats import BUILT_IN, LineFormat, format_named
from bursar.simulate.traces.input_files import TraceText, archive_members
from bursar.simulate.traces.kueue import cpu_milli, memory_mib
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import TraceJob

TEXT = "job_id,submit_s,run_s,gpus\na,0,1,1\nb,1,2,x\n"


def archive(path: Path, **files: str) -> Path:
    with tarfile.open(path, "w:xz" if path.suffix == ".xz" else "w:gz") as out:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"folder/{name}.csv")
            entry.size = len(text.encode())
            out.addfile(entry, io.BytesIO(text.encode()))
    return path


def test_compressed_files_and_archives_are_read_like_plain_files(tmp_path: Path) -> None:
    plain = tmp_path / "t.csv"
    plain.write_text(TEXT)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "t.csv.xz").write_bytes(lzma.compress(TEXT.encode()))
    (tmp_path / "no-ending").write_bytes(lzma.compress(TEXT.encode()))
    archive(tmp_path / "one.tar.xz", t=TEXT)
    archive(tmp_path / "two.tar.gz", s="x\n", t=TEXT)
    places = ["t.csv", "t.csv.gz", "t.csv.xz", "no-ending", "one.tar.xz"]
    places += ["one.tar.xz::folder/t.csv", "two.tar.gz::folder/t.csv", "two.tar.gz::./folder/t.csv"]
    for place in places:
        trace = read_trace(tmp_path / place)
        assert trace.source == str(tmp_path / place)
        assert trace.jobs == read_trace(plain).jobs
        assert [row.line for row in trace.bad_rows] == [3]


def test_the_members_of_an_archive_can_be_listed(tmp_path: Path) -> None:
    path = archive(tmp_path / "two.tar.gz", t=TEXT, s="x\n")
    assert archive_members(path) == (f"{path}::folder/s.csv", f"{path}::folder/t.csv")


@pytest.mark.parametrize(
    ("place", "code", "words"),
    [
        ("absent.csv", "trace-not-found", "there is no such file"),
        ("two.tar.gz", "trace-not-found", "the archive has 2 files; name one of them"),
        ("two.tar.gz::folder/u.csv", "trace-not-found", "Did you mean 'folder/"),
        ("two.tar.gz::zzz", "trace-not-found", "It has folder/s.csv, folder/t.csv"),
        ("cut.csv.xz", "trace-damaged", "the file is damaged"),
        ("cut.csv.gz", "trace-damaged", "the file is damaged"),
        ("false.tar.gz", "trace-damaged", "the file is damaged"),
        ("blank.csv", "trace-columns-missing", "the file is empty"),
    ],
)
def test_an_unreadable_file_is_reported(tmp_path: Path, place: str, code: str, words: str) -> None:
    archive(tmp_path / "two.tar.gz", t=TEXT, s="x\n")
    long = (TEXT + "".join(f"c{n},1,2,3\n" for n in range(50_000))).encode()
    (tmp_path / "cut.csv.xz").write_bytes(lzma.compress(long)[:-40])
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(long)[:-40])
    (tmp_path / "false.tar.gz").write_text(TEXT)
    (tmp_path / "blank.csv").write_text("\n\n")
    with pytest.raises(UserError) as raised:
        read_trace(tmp_path / place)
    assert raised.value.code == code
    assert words in str(raised.value)
    assert str(tmp_path / place.partition("::")[0]) in raised.value.problem


def test_an_unknown_format_is_rejected_with_the_known_ones(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text(TEXT)
    with pytest.raises(UserError, match="Did you mean 'sacct'"):
        read_trace(file, "sact")
    with pytest.raises(UserError, match="csv, sacct, events"):
        read_trace(file, "0000")
    for one in BUILT_IN:
        assert format_named(one.name) is one


def test_an_unknown_header_is_compared_with_the_most_similar_format(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("job_id,submit_s,run_s,gpu\n1,2,3,4\n")
    with pytest.raises(UserError) as raised:
        read_trace(file)
    assert "column gpus missing; found job_id, submit_s, run_s, gpu" in raised.value.problem
    assert "most similar format is 'csv'" in raised.value.problem
    assert raised.value.fix == "Did you write 'gpu' for 'gpus'?"
    file.write_text("Dear all,\nplease find\n")
    with pytest.raises(UserError, match="not a trace in a known format"):
        read_trace(file)


def test_a_byte_order_mark_comments_and_crlf_lines_are_accepted(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    text = "# who made it\r\n\r\njob_id, submit_s ,run_s,gpus\r\na,0,1,1\r\nb,0,1,z\r\n"
    file.write_bytes(b"\xef\xbb\xbf" + text.encode())
    trace = read_trace(file)
    assert [job.job_id for job in trace] == ["a"]
    assert [row.line for row in trace.bad_rows] == [5]


def test_an_oversized_field_is_one_bad_row(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text(f"job_id,submit_s,run_s,gpus\n{'x' * 200_000},0,1,1\nb,0,1,1\n")
    trace = read_trace(file)
    assert [job.job_id for job in trace] == ["b"]
    assert "cannot be read as a row" in trace.bad_rows[0].problem


def test_times_and_amounts_in_other_notations() -> None:
    assert parse_time("1970-01-02", "t") == 86_400_000
    assert parse_time("1970-01-01T08:00:00.0005+08:00", "t") == 0
    assert parse_time("1970-01-01T00:00:01Z", "t") == 1_000
    assert parse_time("86400", "t") == 86_400_000
    assert (cpu_milli("2"), cpu_milli("250m"), cpu_milli("1.5")) == (2_000, 250, 1_500)
    assert (memory_mib("1Gi"), memory_mib("1048576"), memory_mib("1G")) == (1_024, 1, 954)
    assert (parse_outcome("CANCELLED by 12"), parse_outcome("Odd")) == ("cancelled", "odd")
    for wrong in ("one", "1Q", "-1"):
        with pytest.raises(RowProblem):
            memory_mib(wrong)


def test_a_study_can_add_a_format_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "_FORMATS", {one.name: one for one in BUILT_IN})
    mine = LineFormat("mine", "one job a line", lambda text: "mine" in text.head[0], _read_mine)
    formats.register_formats(mine)
    file = tmp_path / "t.txt"
    file.write_text("mine a\nmine b\n")
    assert [job.job_id for job in read_trace(file)] == ["1", "2"]
    assert "mine" in formats.format_titles() and "mine" not in {one.name for one in BUILT_IN}
    other = LineFormat("csv", "not ours", lambda _: True, _read_mine)
    with pytest.raises(BrokenInvariant, match="two trace formats"):
        formats.register_formats(other)


def _read_mine(text: TraceText, builder: TraceBuilder) -> None:
    for line, _ in enumerate(text.lines, start=1):
        builder.add(line, TraceJob(job_id=str(line), submitted_ms=0, run_ms=1, gpus=1))
