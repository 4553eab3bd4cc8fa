"""Every example runs by ``make example NAME=...`` and leaves no process behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.children import with_ctrl_c

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tools"
EXAMPLES = sorted(page.parent for page in (ROOT / "examples").glob("*/README.md"))
STUDIES = [
    ROOT / "examples" / name for name in ("mig-mix", "philly-week", "quota-change", "spot-heavy")
]
"""Simulations: the output in their README is what they print."""

BEGINNING = re.compile(
    r"# .+\n\n(?P<sentence>[^\n]+\.)\n\n```\nmake example NAME=(?P<name>\S+)\n```\n"
)
COMMANDS = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
OUTPUT = re.compile(r"^```\n((?:synthetic|changed):.*?)^```", re.MULTILINE | re.DOTALL)

every_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
every_study = pytest.mark.parametrize("example", STUDIES, ids=lambda example: example.name)


def contained(example: Path, *arguments: str) -> list[str]:
    """What ``tools/run-example`` executes."""
    return [sys.executable, str(TOOLS / "run-contained"), str(example / "run"), *arguments]


def environment(**more: str) -> dict[str, str]:
    """This interpreter's programs come first in PATH."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return os.environ | {"PATH": path} | more


def run(example: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = contained(example, *arguments)
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)


def processes_on(folder: Path) -> list[str]:
    """Command lines that contain a folder: those of the server, the engine and its jobs."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command_line = (process / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue  # it has ended
        if str(folder) in command_line:
            found.append(command_line)
    return found


# -- every one ---------------------------------------------------------------------------------------


def test_every_folder_is_an_example() -> None:
    folders = {path for path in (ROOT / "examples").iterdir() if path.is_dir()}
    assert folders == set(EXAMPLES)


@every_example
def test_its_readme_begins_with_the_command_that_runs_it(example: Path) -> None:
    found = BEGINNING.match((example / "README.md").read_text(encoding="utf-8"))
    assert found is not None
    assert found["name"] == example.name
    assert ". " not in found["sentence"], "one sentence, which 'make example' lists"
    assert os.access(example / "run", os.X_OK)


def test_without_a_name_all_are_listed_with_a_sentence() -> None:
    ran = subprocess.run([TOOLS / "run-example"], capture_output=True, text=True, check=True)
    lines = ran.stdout.splitlines()
    assert len(lines) == len(EXAMPLES)
    for line, example in zip(lines, EXAMPLES, strict=True):
        found = BEGINNING.match((example / "README.md").read_text(encoding="utf-8"))
        assert found is not None
        assert re.fullmatch(rf"  make example NAME={example.name} +(.+)", line)
        assert line.endswith(found["sentence"])


def test_an_unknown_name_is_rejected_with_a_list_of_examples() -> None:
    ran = subprocess.run([TOOLS / "run-example", "no-such"], capture_output=True, text=True)
    assert ran.returncode == 2
    assert "'no-such'" in ran.stderr
    assert all(f"NAME={example.name} " in ran.stderr for example in EXAMPLES)


# -- simulations -------------------------------------------------------------------------------------


@every_study
def test_it_runs_with_few_jobs(example: Path) -> None:
    ran = run(example, "--limit", "60")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert re.search(r"^JCT mean +\S", ran.stdout, re.M)


@every_study
def test_it_runs_the_commands_of_its_readme(example: Path) -> None:
    (commands,) = COMMANDS.findall((example / "README.md").read_text(encoding="utf-8"))
    script = (example / "run").read_text(encoding="utf-8").replace(' "$@"', "")
    assert script.endswith(f"\n{commands}")


@pytest.mark.thorough
@every_study
def test_it_prints_what_its_readme_shows(example: Path) -> None:
    (shown,) = OUTPUT.findall((example / "README.md").read_text(encoding="utf-8"))
    printed = re.sub(r"^cycle.*\n", "", run(example).stdout, flags=re.MULTILINE)
    assert printed.endswith(shown)


# -- servers -----------------------------------------------------------------------------------------


def test_every_job_of_the_folder_is_submitted_and_succeeds() -> None:
    example = ROOT / "examples" / "jobs"
    ran = run(example)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    submitted = re.findall(r"^\$ bursar submit (\S+)", ran.stdout, re.M)
    files = {path.name for path in example.glob("*.yaml")} - {"fleet.yaml"}
    assert set(submitted) == files
    assert ran.stderr.count("succeeded") == len(files)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["three-projects", "research-product"])
def test_it_runs_to_its_end(name: str) -> None:
    ran = run(ROOT / "examples" / name)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ctrl_c_ends_the_server_and_its_jobs(tmp_path: Path) -> None:
    with subprocess.Popen(
        contained(ROOT / "examples" / "three-projects"),
        env=environment(TMPDIR=str(tmp_path)),
        start_new_session=True,
        preexec_fn=with_ctrl_c,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "jobs/2-experiments.yaml" in line:
                break
        assert len(processes_on(tmp_path)) >= 4, "a server, the local engine, and two jobs"
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert processes_on(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
