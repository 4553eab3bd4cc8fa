"""The ``bursar`` command in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest

from bursar import __version__
from bursar.cli import main as cli
from bursar.cli.main import paint
from bursar.model.errors import UserError
from tests.children import with_ctrl_c

SRC = Path(__file__).parents[2] / "src"
BURSAR = [sys.executable, "-m", "bursar.cli.main"]


def environment() -> dict[str, str]:
    """An environment with random hash order."""
    return {**os.environ, "PYTHONPATH": str(SRC), "PYTHONHASHSEED": "random"}


def bursar(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*BURSAR, *arguments],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=False,
    )


@cache
def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    """One run of the demonstration, shared by the tests that only read it."""
    return bursar("demo", *arguments)


def test_the_version() -> None:
    ran = bursar("--version")
    assert (ran.returncode, ran.stdout) == (0, f"bursar {__version__}\n")


@pytest.mark.parametrize("arguments", [("--help",), ()])
def test_help_lists_every_command(arguments: tuple[str, ...]) -> None:
    ran = bursar(*arguments)
    assert ran.returncode == 0
    named = cli.COMMANDS.keys() - cli.ALIASES.keys()
    assert all(re.search(rf"^    {command} ", ran.stdout, re.M) for command in named)
    assert all(f"{name} ({alias})" in ran.stdout for alias, name in cli.ALIASES.items())


def test_the_help_of_a_command_lists_its_options() -> None:
    ran = bursar("demo", "--help")
    assert ran.returncode == 0
    assert "--verbose" in ran.stdout and "--seed N" in ran.stdout


def test_help_imports_only_what_it_needs() -> None:
    ask = (
        "import sys; from bursar.cli.main import build_parser; build_parser().format_help();"
        "print([name for name in sys.modules if name.startswith(('bursar.core', 'bursar.simulate', "
        "'bursar.client', 'bursar.api', 'bursar.control', 'rich', 'yaml', 'http', 'sqlalchemy'))])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", ask], capture_output=True, text=True, env=environment(), check=True
    )
    assert ran.stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "problem", "fix"),
    [
        (("dmeo",), "'dmeo' is not a bursar command", "Did you mean 'demo'?"),
        (
            ("frobnicate",),
            "'frobnicate' is not a bursar command",
            "The commands are: ",
        ),
        (("demo", "--sed", "1"), "'--sed' is not an argument of bursar demo", "bursar demo --help"),
        (("demo", "extra"), "'extra' is not an argument of bursar demo", "bursar demo --help"),
        (("demo", "--seed", "x"), "invalid int value: 'x'", "bursar demo --help"),
        (("--verbose",), "'--verbose' is not an argument of bursar", "bursar --help"),
    ],
)
def test_wrong_usage_prints_the_problem_and_the_fix(
    arguments: tuple[str, ...], problem: str, fix: str
) -> None:
    ran = bursar(*arguments)
    error, advice = ran.stderr.splitlines()
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert error.startswith("error: ") and problem in error
    assert advice.startswith("fix: ") and fix in advice


def test_the_demonstration_shows_every_rule_at_work() -> None:
    ran = demo()
    assert (ran.returncode, ran.stderr) == (0, "")
    assert len(ran.stdout.splitlines()) < 100
    assert ran.stdout.isascii()
    scenes = {
        "a gang in one rack": r"start +llm-pretrain-a +4 x 8 GPUs on n1, n2, n3, n4 \(rack r1\)",
        "idle quota is borrowed": r"borrow +research +holds 48 GPUs .* of which 16 GPUs borrowed",
        "borrowed GPUs are taken back": r"preempt +vision-detector +for ranker-train: .* \$\d+\.\d\d",
        "a claim": r"claim +ranker-train +reserves n\d until vision-detector stops",
        "the victim resumes": r"start +vision-detector .* resumes from its checkpoint of \d\d:\d\d",
        "a reservation": r"hold +llm-pretrain-b +owned: needs capacity for 4 tasks .* planned to start at",
        "harmless backfill": r"start +\S+ .* backfill: (ends before|does not use the nodes)",
        "backfill that would delay a job": r"hold +llm-distill +would delay llm-pretrain-b",
        "a GPU is partitioned": r"partition +n8 +GPU 0 partitioned into 4 x 1g.10gb \+ 3g.40gb",
        "a slice": r"start +serve-1 +a 3g.40gb slice on GPU 0",
        "a share": r"start +notebook-\d\d +25 % of a GPU on GPU \d of n\d",
        "spot is cheaper": r"start +sweep-\d\d +2 GPUs on s1, \$2\.20/h",
        "quota is short": r"hold +burn-in +a100-80gb/owned: needs 16 GPUs, .* of quota left",
        "quota is raised": r"quota +platform +its quota is now 12 GPUs",
        "a dependency": r"hold +ranker-eval +depends on ranker-train",
        "an elastic gang": r"start +ads-refresh .* starts with the \d tasks",
        "a limit is reached": r"stop +forgotten-notebook +reached its maximum run time, 3 h",
        "a table by team": r"team +jobs +wait mean +wait p90 +GPU time +satisfied +cost +preempted",
        "reasons with numbers": r"Why jobs wait: \d\d:\d\d, \d+ jobs wait",
    }
    text = " ".join(ran.stdout.split())
    missing = [scene for scene, words in scenes.items() if not re.search(words, text)]
    assert missing == []


def test_the_demonstration_is_the_same_every_time_and_differs_by_seed() -> None:
    assert bursar("demo").stdout == demo().stdout
    assert bursar("demo", "--seed", "1").stdout != demo().stdout


def test_the_verbose_demonstration_prints_more() -> None:
    assert demo("--verbose").stdout.count("\n") > demo().stdout.count("\n")


def test_a_closed_pipe_is_no_error() -> None:
    with subprocess.Popen(
        [*BURSAR, "demo", "--verbose"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 0


def test_an_interrupt_ends_quietly() -> None:
    slow = (
        "import sys, time; from bursar.cli import main;"
        "main.COMMANDS['demo'] = lambda parsed: (print('ready', flush=True), time.sleep(60))[0];"
        "sys.exit(main.main(['demo']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", slow],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        preexec_fn=with_ctrl_c,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert process.stderr.read() == b""


def test_a_user_error_becomes_two_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(parsed: object) -> int:
        raise UserError("job.yaml:4: no.", fix="write yes.", code="no-is-wrong")

    monkeypatch.setitem(cli.COMMANDS, "demo", refuse)
    assert cli.main(["demo"]) == 1
    assert capsys.readouterr().err == "error: job.yaml:4: no.\nfix: write yes.\n"


def test_colours_are_for_terminals_only() -> None:
    assert "\x1b" not in demo().stdout
    assert paint("x", "hold") == "\x1b[33mx\x1b[0m"
    assert paint("x", "plain") == "x"
