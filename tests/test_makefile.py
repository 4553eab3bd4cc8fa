"""What ``make``, the scripts of ``tools/`` and ``.ci/run`` do, without installing anything."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = ROOT / "tools"
INSTALLERS = sorted(script.name for script in TOOLS.glob("install-*"))
MAKEFILE_LINES = 120

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def steps_of(target: str) -> str:
    """Every command of a target in a fresh checkout; none of them is run."""
    asked = ["make", "--dry-run", "--always-make", target]
    found = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
    return found.stdout


def write_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def checkout(folder: Path) -> Path:
    """A checkout without ``.venv``."""
    shutil.copytree(TOOLS, folder / "tools")
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def run(script: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    plain = {
        name: value
        for name, value in os.environ.items()
        if "MAKE" not in name and name != "BURSAR_TIMES"
    }
    return subprocess.run(
        [str(script), *words], env=plain | environment, capture_output=True, text=True
    )


def test_the_makefile_is_a_table_of_targets() -> None:
    assert len((ROOT / "Makefile").read_text(encoding="utf-8").splitlines()) < MAKEFILE_LINES


def test_running_installs_no_test_packages() -> None:
    steps = steps_of("run")
    assert "tools/make-venv run" in steps
    assert "tools/make-venv dev" not in steps


@pytest.mark.parametrize("target", ["test", "check", "bench", "format"])
def test_testing_adds_its_packages_to_the_same_environment(target: str) -> None:
    steps = steps_of(target)
    assert steps.index("tools/make-venv run") < steps.index("tools/make-venv dev")


def test_the_packages_of_tests_are_installed_after_those_that_run(tmp_path: Path) -> None:
    """The interpreter is a fake that records its arguments."""
    here = checkout(tmp_path)
    asked = tmp_path / "asked"
    python = write_program(here / ".venv" / "bin" / "python", f'echo "$@" >>{asked}')
    assert run(here / "tools" / "make-venv", "run", PYTHON=str(python)).returncode == 0
    lines = asked.read_text(encoding="utf-8")
    assert "-e .\n" in lines and "[dev]" not in lines
    assert run(here / "tools" / "make-venv", "dev", PYTHON=str(python)).returncode == 0
    lines = asked.read_text(encoding="utf-8")
    assert lines.count("-e .\n") == 1 and lines.count("-e .[dev]\n") == 1
    run(here / "tools" / "make-venv", "dev", PYTHON=str(python))
    assert asked.read_text(encoding="utf-8").count("-m pip") == 2, "both are installed already"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("exit 1", "none of these runs: "),
        ('case "$2" in *version_info*) exit 1;; esac; [ "$1" != -V ] || echo Python 3.9.1',
         "is Python 3.9.1; Bursar needs Python 3.11 or newer"),
        ('case "$2" in *ensurepip*) exit 1;; esac', "its venv module is missing"),
    ],
    ids=["no Python", "an old Python", "a Python without venv"],
)  # fmt: skip
def test_a_missing_python_is_explained(tmp_path: Path, text: str, complaint: str) -> None:
    python = write_program(tmp_path / "python", text)
    ran = run(checkout(tmp_path / "here") / "tools" / "make-venv", PYTHON=str(python))
    assert ran.returncode == 1
    assert complaint in ran.stderr


def test_every_script_is_listed_and_can_be_run() -> None:
    listing = (TOOLS / "README.md").read_text(encoding="utf-8")
    hidden = {"README.md", "__init__.py", "__pycache__"}
    scripts = {path for path in TOOLS.iterdir() if path.name not in hidden}
    names = {f"{path.name}/" if path.is_dir() else path.name for path in scripts}
    assert set(re.findall(r"^\| `(\S+)` \|", listing, re.M)) == names
    assert {path.name for path in scripts if not os.access(path, os.X_OK)} == {"packages.sh"}


def test_a_full_test_run_installs_every_part() -> None:
    steps = steps_of("test-full")
    assert sorted(re.findall(r"tools/(install-\S+)", steps)) == INSTALLERS


def test_a_part_that_is_there_is_found_and_timed(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    for name in ("slurmctld", "slurmd", "slurmdbd", "slurmrestd", "munged", "mariadbd"):
        write_program(programs / name, "echo slurm-wlm 22.05.8")
    times = tmp_path / "times"
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    ran = run(TOOLS / "install-slurm", PATH=path, BURSAR_TIMES=str(times))
    assert re.fullmatch(r"Slurm: found slurm-wlm 22\.05\.8 \(\d+ s\)\n", ran.stdout), ran.stderr
    assert re.fullmatch(r" +\d+ s  Slurm: found .*\n", times.read_text(encoding="utf-8"))


def test_a_part_that_cannot_be_installed_reports_that_its_tests_are_skipped(tmp_path: Path) -> None:
    """A user who is not root, on a machine without Slurm."""
    programs = tmp_path / "bin"
    write_program(programs / "id", "echo 1000")
    for name in ("bash", "env", "dirname", "sed"):
        (programs / name).symlink_to(shutil.which(name) or pytest.fail(name))
    ran = run(TOOLS / "install-slurm", PATH=str(programs))
    assert ran.returncode == 0, ran.stderr
    assert "absent, its tests are skipped; as root on Debian or Ubuntu: apt install" in ran.stdout


@pytest.mark.parametrize(
    ("broken", "code", "parts"),
    [
        ("nothing", 0, ["make check", "make test-full"]),
        ("check", 2, ["make check (failed)"]),
        ("test-full", 2, ["make check", "make test-full (failed)"]),
    ],
)
def test_ci_prints_the_time_of_each_part(
    tmp_path: Path, broken: str, code: int, parts: list[str]
) -> None:
    write_program(tmp_path / "bin" / "make", f'[ "$1" != {broken} ] || exit 2')
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    ran = run(tmp_path / ".ci" / "run", PATH=path)
    assert ran.returncode == code
    assert re.findall(r"^ +\d+ s  (.+)$", ran.stdout, re.M) == parts
