"""Our own format: traces are read as they were written, and the README documents every column."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.catalog.gpu_models import GPU_MODELS
from bursar.model.errors import UserError
from bursar.simulate import traces
from bursar.simulate.traces import read_trace, write_trace
from bursar.simulate.traces.formats import BUILT_IN
from bursar.simulate.traces.own_form import COLUMNS
from bursar.simulate.workload.trace import Trace, TraceJob

HAS_PYARROW = find_spec("pyarrow") is not None
README = Path(traces.__file__).with_name("README.md")

words = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), max_size=8)
amounts = st.integers(min_value=0, max_value=10**12)
models = st.sampled_from([*(model.name for model in GPU_MODELS), "anonymous-g2"])
jobs = st.builds(
    TraceJob,
    job_id=words.filter(bool),
    submitted_ms=amounts,
    run_ms=amounts,
    team=words.filter(bool),
    user=words,
    name=words,
    tasks=st.integers(min_value=1, max_value=10**6),
    gpus=amounts,
    gpu_milli=amounts,
    gpu_models=st.lists(models, max_size=3).map(tuple),
    cpu_milli=amounts,
    memory_mib=amounts,
    expected_ms=st.none() | amounts,
    deadline_ms=st.none() | amounts,
    priority=st.integers(min_value=-(2**31), max_value=2**31),
    outcome=words,
)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Random traces, sorted and starting at zero like every trace that is read."""
    drawn = draw(st.lists(jobs, max_size=6, unique_by=lambda job: job.job_id))
    if drawn:
        drawn[0] = replace(drawn[0], submitted_ms=0)
    ordered = sorted(drawn, key=lambda job: (job.submitted_ms, job.job_id))
    return Trace(source="drawn", jobs=tuple(ordered))


def round_trip(trace: Trace, name: str) -> Trace:
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        write_trace(trace, path)
        return read_trace(path)


@given(traces(), st.sampled_from(["t.csv", "t.csv.gz", "t.csv.xz"]))
def test_a_written_trace_is_read_back(trace: Trace, name: str) -> None:
    read = round_trip(trace, name)
    assert read.bad_rows == ()
    assert read.jobs == trace.jobs


@pytest.mark.skipif(not HAS_PYARROW, reason="pyarrow is not installed")
@given(traces())
def test_a_trace_written_in_parquet_is_read_back(trace: Trace) -> None:
    read = round_trip(trace, "t.parquet")
    assert read.bad_rows == ()
    assert read.jobs == trace.jobs


@pytest.mark.skipif(not HAS_PYARROW, reason="pyarrow is not installed")
def test_bad_rows_and_missing_columns_of_parquet_are_reported(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    rows = {"job_id": ["a", "b", None], "submit_s": [0.0, -1.0, 2.0], "run_s": [1, 2, 3]}
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(pyarrow.table({**rows, "gpus": [8, 8, 8]}), path)
    trace = read_trace(path)
    assert [job.gpus for job in trace] == [8]
    assert [(row.line, row.problem) for row in trace.bad_rows] == [
        (2, "submit_s is -1.0, before 0"),
        (3, "job_id is empty"),
    ]
    pyarrow.parquet.write_table(pyarrow.table(rows), path)
    with pytest.raises(UserError, match="column gpus missing"):
        read_trace(path)


@pytest.mark.skipif(HAS_PYARROW, reason="pyarrow is installed")
def test_without_pyarrow_parquet_is_refused_with_a_fix(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    for attempt in (lambda: write_trace(Trace(source="", jobs=()), path), lambda: _read(path)):
        with pytest.raises(UserError) as raised:
            attempt()
        assert raised.value.code == "parquet-needs-pyarrow"
        assert "pip install pyarrow" in raised.value.fix


def _read(path: Path) -> Trace:
    path.write_bytes(b"PAR1")
    return read_trace(path)


def test_parquet_in_an_archive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="extract a Parquet file from its archive"):
        read_trace(tmp_path / "a.tar::t.parquet", "parquet")


def test_empty_columns_are_left_out(tmp_path: Path) -> None:
    job = TraceJob(job_id="a", submitted_ms=0, run_ms=1_500, gpus=0, priority=-3)
    path = tmp_path / "t.csv"
    write_trace(Trace(source="", jobs=(job,)), path)
    assert path.read_text() == "job_id,submit_s,run_s,gpus,priority\na,0,1.500,0,-3\n"


def test_another_file_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"ends in \.csv"):
        write_trace(Trace(source="", jobs=()), tmp_path / "t.xlsx")


def test_the_readme_documents_every_column_and_format() -> None:
    text = README.read_text()
    for column in COLUMNS.all:
        assert f"| `{column}` |" in text
    for name in ("parquet", *(one.name for one in BUILT_IN)):
        assert f"| `{name}` |" in text
