"""Functions as jobs: packed, run by ``sdk/call.py`` in another process, and the result read."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from bursar.client import function_call
from bursar.client.errors import Invalid, JobFailed
from bursar.client.function_call import FunctionCall, pack_call
from bursar.client.function_result import (
    MARK,
    ResultFilter,
    has_result,
    read_result,
    without_results,
)
from tests.client import job_functions

ROOT = Path(__file__).parents[2]


def pack(function: Callable[..., object], *args: object, **kwargs: object) -> FunctionCall:
    return pack_call(function, args, kwargs, python=sys.executable)


def run(call: FunctionCall, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Unpacks and runs the script like an engine, without Bursar installed."""
    with tarfile.open(fileobj=io.BytesIO(call.bundle.content), mode="r:gz") as archive:
        archive.extractall(folder, filter="data")
    return subprocess.run(
        ["/bin/sh", "-c", call.run],
        cwd=folder,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], **environment},
        timeout=60,
        check=False,
    )


def test_an_importable_function_is_sent_with_its_package(tmp_path: Path) -> None:
    ran = run(pack(job_functions.add, 2, second=5), tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "tests" / "client" / "job_functions.py").exists()
    assert read_result(ran.stdout, "j-a") == {"sum": 7}
    assert without_results(ran.stdout) == "adding, without an end of line"


def test_the_standard_library_is_not_sent(tmp_path: Path) -> None:
    ran = run(pack(os.path.join, "a", "b"), tmp_path)
    assert read_result(ran.stdout, "j-a") == "a/b"
    assert [one.name for one in tmp_path.iterdir()] == [".bursar"]


def test_a_lambda_is_sent_by_value(tmp_path: Path) -> None:
    pytest.importorskip("cloudpickle")
    factor = 3
    site = next(path for path in sys.path if path.endswith("site-packages"))
    ran = run(pack(lambda number: number * factor, 14), tmp_path, PYTHONPATH=site)
    assert read_result(ran.stdout, "j-a") == 42, ran.stderr


def test_a_lambda_without_cloudpickle_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(Invalid, match="cannot be imported by a job") as refused:
        pack(lambda: 1)
    assert "pip install cloudpickle" in refused.value.fix
    assert pack(job_functions.add, 1).name == "add"


def test_an_exception_of_the_function_is_raised(tmp_path: Path) -> None:
    ran = run(pack(job_functions.fail, "too hot"), tmp_path)
    assert ran.returncode == 1
    assert "CustomError: too hot" in ran.stderr
    with pytest.raises(job_functions.CustomError, match="too hot") as raised:
        read_result(ran.stdout, "j-a")
    assert "job_functions.py" in raised.value.__notes__[0]


def test_an_exception_of_an_unknown_class_becomes_text(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(
        "class Theirs(Exception): pass\ndef go(): raise Theirs('gone')\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        theirs = __import__("theirs")
        ran = run(pack(theirs.go), tmp_path / "job")
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("theirs", None)
    with pytest.raises(JobFailed, match="Theirs: gone"):
        read_result(ran.stdout, "j-a")


def test_an_exit_of_the_function_is_a_failure(tmp_path: Path) -> None:
    ran = run(pack(job_functions.exit_with_code), tmp_path)
    assert ran.returncode == 1
    with pytest.raises(JobFailed, match="SystemExit: 4"):
        read_result(ran.stdout, "j-a")


@pytest.mark.parametrize(
    ("function", "arguments", "problem"),
    [
        (job_functions.return_unpicklable, (), "pickle"),
        (job_functions.return_bytes, (11 << 20,), "at most 10,485,760"),
    ],
)
def test_an_unpicklable_or_large_result_is_an_error(
    tmp_path: Path, function: Callable[..., object], arguments: tuple[int, ...], problem: str
) -> None:
    ran = run(pack(function, *arguments), tmp_path)
    assert ran.returncode == 1
    with pytest.raises((TypeError, ValueError), match=problem):
        read_result(ran.stdout, "j-a")


def test_only_the_first_task_of_a_gang_returns_a_result(tmp_path: Path) -> None:
    call = pack(job_functions.add, 1)
    result_file = tmp_path / "result"
    first = run(call, tmp_path / "0", RANK="0", BURSAR_RESULT_FILE=str(result_file))
    second = run(call, tmp_path / "1", RANK="1")
    assert has_result(first.stdout) and not has_result(second.stdout)
    assert result_file.read_bytes().startswith(b'{"ok": true}\n')


def test_code_by_value_requires_the_same_python_version(tmp_path: Path) -> None:
    pytest.importorskip("cloudpickle")
    call = pack(lambda: 1)
    run(call, tmp_path)
    metadata = tmp_path / ".bursar" / "call.json"
    metadata.write_text('{"python": "3.1", "by_value": true}')
    ran = subprocess.run(
        [sys.executable, ".bursar/call.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    with pytest.raises(RuntimeError, match=r"pickled by Python 3\.1"):
        read_result(ran.stdout, "j-a")


def test_a_missing_or_partial_result_is_reported() -> None:
    with pytest.raises(JobFailed, match="left no result"):
        read_result("hello\n", "j-a")
    with pytest.raises(JobFailed, match="1 of 3 parts"):
        read_result(f"{MARK} 2/3 aGVsbG8=\n", "j-a")


@pytest.mark.parametrize("size", [1, 2, 7, 100, 5000])
def test_results_are_filtered_from_output_in_chunks_of_any_size(tmp_path: Path, size: int) -> None:
    ran = run(pack(job_functions.add, 1), tmp_path)
    output = f"::no\n\n{ran.stdout}after\n\n:"
    result_filter = ResultFilter()
    pieces = [result_filter.feed(output[at : at + size]) for at in range(0, len(output), size)]
    assert "".join(pieces) == "::no\n\nadding, without an end of line\nafter\n"


def test_unpicklable_arguments_are_rejected() -> None:
    with pytest.raises(Invalid, match="cannot be pickled"):
        pack(job_functions.add, sys.stdout)


def test_a_job_is_named_after_its_function() -> None:
    assert function_call._job_name(job_functions.add) == "add"
    assert function_call._job_name(lambda: 1) == "lambda"
