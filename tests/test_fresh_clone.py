"""A fresh clone: runs the demonstration, then the tests next to the files it left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.children import clean_environment, with_ctrl_c
from tests.examples.up import until

ROOT = Path(__file__).parents[1]
TESTS = "tests/test_tidy.py tests/test_docs.py"

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is not a git checkout"),
    *(
        pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is not installed")
        for tool in ("git", "make")
    ),
]


def run(*command: str, cwd: Path) -> str:
    """A command that must succeed, and its output."""
    ran = subprocess.run(
        command, cwd=cwd, env=clean_environment(), capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, f"{command}:\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A fresh clone with an environment that borrows the packages of the one in use: no network."""
    folder = tmp_path / "clone"
    run("git", "clone", "--quiet", str(ROOT), str(folder), cwd=tmp_path)
    venv.create(folder / ".venv", symlinks=True)
    packages = next((folder / ".venv" / "lib").glob("python3.*/site-packages"))
    borrowed = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (packages / "borrowed.pth").write_text("\n".join([str(folder / "src"), *borrowed]))
    python = folder / ".venv" / "bin" / "python"
    command = python.with_name("bursar")
    command.write_text(f"#!{python}\nfrom bursar.cli.main import main\nraise SystemExit(main())\n")
    command.chmod(0o755)
    run("make", "--touch", "run", "test", cwd=folder)
    return folder


def make_run(clone: Path) -> None:
    """The demonstration, one job that uploads a folder, and Ctrl-C."""
    log = clone.parent / "run.log"
    with log.open("wb") as file:
        demonstration = subprocess.Popen(
            ["make", "run", "PORT=0"],
            cwd=clone,
            env=clean_environment(),
            stdout=file,
            stderr=file,
            start_new_session=True,
            preexec_fn=with_ctrl_c,
        )
    try:
        until(lambda: "submitted 1-" in log.read_text(), f"a sample job in {log}")
        state = ("env", f"BURSAR_STATE={clone / '.bursar'}", ".venv/bin/bursar")
        job = ("--queue", "experiments", "--workdir", "examples/spot-training", "--", "true")
        run(*state, "submit", "-y", "--wait", *job, cwd=clone)
        for queue in ("preprocessing", "experiments", "retraining"):
            run(*state, "cancel", "-y", "--queue", queue, cwd=clone)
    finally:
        os.killpg(demonstration.pid, signal.SIGINT)
        demonstration.wait(timeout=30)
    assert "stopped; jobs keep running" in log.read_text()


def test_the_tests_pass_where_the_demonstration_ran(clone: Path) -> None:
    make_run(clone)
    assert list((clone / ".bursar" / "bundles").iterdir()), "the job left the folder it uploaded"
    assert "passed" in run("make", "test", f"TESTS={TESTS}", cwd=clone)
