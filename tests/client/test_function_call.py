"""A function as a job: packed here, run by ``sdk/call.py`` in a process of its own, read back here."""

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
from tests.client import called

ROOT = Path(__file__).parents[2]


def pack(function: Callable[..., object], *args: object, **kwargs: object) -> FunctionCall:
    return pack_call(function, args, kwargs, python=sys.executable)


def run(call: FunctionCall, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """As the engine does it: unpack, and run the script in the folder, with nothing of ours installed."""
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


def test_a_function_that_can_be_imported_travels_with_its_package(tmp_path: Path) -> None:
    ran = run(pack(called.add, 2, second=5), tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "tests" / "client" / "called.py").exists()
    assert read_result(ran.stdout, "j-a") == {"sum": 7}
    assert without_results(ran.stdout) == "adding, without an end of line"


def test_the_standard_library_does_not_travel(tmp_path: Path) -> None:
    ran = run(pack(os.path.join, "a", "b"), tmp_path)
    assert read_result(ran.stdout, "j-a") == "a/b"
    assert [one.name for one in tmp_path.iterdir()] == [".bursar"]


def test_a_function_without_a_name_travels_by_value(tmp_path: Path) -> None:
    pytest.importorskip("cloudpickle")
    factor = 3
    site = next(path for path in sys.path if path.endswith("site-packages"))
    ran = run(pack(lambda number: number * factor, 14), tmp_path, PYTHONPATH=site)
    assert read_result(ran.stdout, "j-a") == 42, ran.stderr


def test_without_cloudpickle_it_is_refused_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(Invalid, match="cannot be imported by a job") as refused:
        pack(lambda: 1)
    assert "pip install cloudpickle" in refused.value.fix
    assert pack(called.add, 1).name == "add"


def test_what_was_raised_is_raised_again(tmp_path: Path) -> None:
    ran = run(pack(called.fail, "too hot"), tmp_path)
    assert ran.returncode == 1
    assert "Odd: too hot" in ran.stderr
    with pytest.raises(called.Odd, match="too hot") as raised:
        read_result(ran.stdout, "j-a")
    assert "called.py" in raised.value.__notes__[0]


def test_an_exception_unknown_here_becomes_its_text(tmp_path: Path) -> None:
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


def test_leaving_by_exit_is_a_failure_that_says_so(tmp_path: Path) -> None:
    ran = run(pack(called.leave), tmp_path)
    assert ran.returncode == 1
    with pytest.raises(JobFailed, match="SystemExit: 4"):
        read_result(ran.stdout, "j-a")


@pytest.mark.parametrize(
    ("function", "arguments", "problem"),
    [(called.unsendable, (), "pickle"), (called.large, (11 << 20,), "at most 10,485,760")],
)
def test_a_result_that_cannot_travel(
    tmp_path: Path, function: Callable[..., object], arguments: tuple[int, ...], problem: str
) -> None:
    ran = run(pack(function, *arguments), tmp_path)
    assert ran.returncode == 1
    with pytest.raises((TypeError, ValueError), match=problem):
        read_result(ran.stdout, "j-a")


def test_only_the_first_task_of_a_gang_answers_and_a_result_file_is_written(tmp_path: Path) -> None:
    call = pack(called.add, 1)
    kept = tmp_path / "result"
    first = run(call, tmp_path / "0", RANK="0", BURSAR_RESULT_FILE=str(kept))
    second = run(call, tmp_path / "1", RANK="1")
    assert has_result(first.stdout) and not has_result(second.stdout)
    assert kept.read_bytes().startswith(b'{"ok": true}\n')


def test_code_by_value_says_when_the_versions_differ(tmp_path: Path) -> None:
    pytest.importorskip("cloudpickle")
    call = pack(lambda: 1)
    run(call, tmp_path)
    about = tmp_path / ".bursar" / "call.json"
    about.write_text('{"python": "3.1", "by_value": true}')
    ran = subprocess.run(
        [sys.executable, ".bursar/call.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    with pytest.raises(RuntimeError, match=r"pickled by Python 3\.1"):
        read_result(ran.stdout, "j-a")


def test_output_that_is_no_result() -> None:
    with pytest.raises(JobFailed, match="left no result"):
        read_result("hello\n", "j-a")
    with pytest.raises(JobFailed, match="1 of 3 parts"):
        read_result(f"{MARK} 2/3 aGVsbG8=\n", "j-a")


@pytest.mark.parametrize("size", [1, 2, 7, 100, 5000])
def test_results_are_taken_out_of_output_in_pieces_of_any_size(tmp_path: Path, size: int) -> None:
    ran = run(pack(called.add, 1), tmp_path)
    whole = f"::no\n\n{ran.stdout}after\n\n:"
    taken = ResultFilter()
    pieces = [taken.feed(whole[at : at + size]) for at in range(0, len(whole), size)]
    assert "".join(pieces) == "::no\n\nadding, without an end of line\nafter\n"


def test_arguments_that_cannot_be_pickled() -> None:
    with pytest.raises(Invalid, match="cannot be pickled"):
        pack(called.add, sys.stdout)


def test_names_of_jobs_are_names() -> None:
    assert function_call._job_name(called.add) == "add"
    assert function_call._job_name(lambda: 1) == "lambda"
