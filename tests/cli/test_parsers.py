"""Every command has an example, its common options and documentation."""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from bursar.cli import exit_codes
from bursar.cli.commands.operations.completion import SHELLS
from bursar.cli.main import ALIASES, COMMANDS, build_parser
from tests.cli.commands import ROOT, bursar

PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
LISTS = {
    *(
        "queue",
        "status",
        "gpus",
        "quota",
        "fair",
        "rules",
        "fleet show",
        "fleet plan",
        "tenant list",
    ),
    *("token list", "top", "doctor", "cancel"),
}
WATCHED = {
    "queue",
    "status",
    "gpus",
    "quota",
    "fair",
    "rules",
    "fleet show",
    "tenant list",
    "token list",
}
ASKS = {"submit", "cancel", "fleet apply", "token revoke"}


def parsers(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command and verb by name, without aliases."""
    if path:
        yield " ".join(path), parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                if name not in ALIASES:
                    yield from parsers(below, (*path, name))


ALL = dict(parsers(build_parser()))
every_command = pytest.mark.parametrize("name", sorted(ALL))


def options_of(name: str) -> set[str]:
    return {option for action in ALL[name]._actions for option in action.option_strings}


def test_every_command_is_seen() -> None:
    assert {name.split()[0] for name in ALL} == COMMANDS.keys() - ALIASES.keys()
    assert ALL.keys() >= LISTS | WATCHED | ASKS


@every_command
def test_help_shows_a_valid_example(name: str) -> None:
    epilog = ALL[name].epilog or ""
    examples = [line.strip() for line in epilog.splitlines()[1:]]
    assert examples and epilog.startswith("example")
    for example in examples:
        words = shlex.split(example.partition(" > ")[0])
        assert words[0] == "bursar" and " ".join(words[1:]).startswith(name.split()[0])
        before = words[1 : words.index("--")] if "--" in words else words[1:]
        build_parser().parse_args(before)


@every_command
def test_every_option_has_a_help_text(name: str) -> None:
    options = [one for one in ALL[name]._actions if not isinstance(one, argparse._SubParsersAction)]
    assert all(one.help for one in options)


@pytest.mark.parametrize("name", sorted(LISTS))
def test_every_list_has_every_output_format(name: str) -> None:
    assert {"-o", "--output", "--json", "--no-color"} <= options_of(name)


@pytest.mark.parametrize("name", sorted(WATCHED))
def test_every_changing_list_can_be_watched_and_limited(name: str) -> None:
    assert {"--watch", "--limit"} <= options_of(name)


@pytest.mark.parametrize("name", sorted(ASKS))
def test_every_confirmation_can_be_skipped(name: str) -> None:
    assert {"-y", "--yes"} <= options_of(name)


@every_command
def test_every_command_and_option_is_documented(name: str) -> None:
    heading = f"## bursar {name.split()[0]}\n"
    assert heading in PAGE
    part = PAGE.split(heading, 1)[1].split("\n## ", 1)[0]
    usual = PAGE.split("## Common options\n", 1)[1].split("\n## ", 1)[0]
    described = set(re.findall(r"`(-[-\w]+)", part)) | set(re.findall(r"`(-[-\w]+)", usual))
    missing = options_of(name) - described - {"-h", "--help"}
    assert missing == set()
    if " " in name:
        assert f"`bursar {name}" in part


def test_the_page_documents_no_option_that_is_not_there() -> None:
    known = {option for name in ALL for option in options_of(name)} | {"--version"}
    ours = PAGE.split("## Coming from Slurm", 1)[0]
    assert set(re.findall(r"`(--[-\w]+)", ours)) - known == set()


def test_every_exit_code_is_documented() -> None:
    table = PAGE.split("## Exit codes", 1)[1].split("\n## ", 1)[0]
    documented = {int(number) for number in re.findall(r"^\| (\d+) \|", table, re.M)}
    codes = {
        value
        for name, value in vars(exit_codes).items()
        if name.isupper() and isinstance(value, int)
    }
    assert documented == codes


def test_twelve_commands_of_slurm_have_a_counterpart() -> None:
    table = PAGE.split("## Coming from Slurm", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `(s[a-z]+)[^|]*\| `bursar (\w+)", table, re.M)
    assert len({slurm for slurm, _ in rows}) >= 12
    assert {ours for _, ours in rows} <= COMMANDS.keys()


@pytest.mark.parametrize("words", [("fleet",), ("tenant",), ("token",), ("why",), ("logs",)])
def test_a_command_without_its_arguments_names_what_is_missing(words: tuple[str, ...]) -> None:
    ran = bursar(*words)
    assert ran.returncode == 2
    assert "required" in ran.stderr and f"bursar {words[0]} --help" in ran.stderr


def test_words_after_two_dashes_are_for_jobs_only() -> None:
    ran = bursar("queue", "--", "python")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "'--' is not an argument of bursar queue" in ran.stderr


def test_a_submission_without_a_job() -> None:
    ran = bursar("submit")
    assert ran.returncode == 2
    assert "neither a file nor a command" in ran.stderr and "bursar submit job.yaml" in ran.stderr
    assert bursar("submit", "a.yaml", "--from-slurm", "b.sbatch").returncode == 2


# -- completion --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_knows_every_command_and_option(shell: str) -> None:
    ran = bursar("completion", shell)
    assert (ran.returncode, ran.stderr) == (0, "")
    for name in ALL:
        assert all(word in ran.stdout for word in name.split())
    assert "from-slurm" in ran.stdout and "wide" in ran.stdout
    if shutil.which(shell):
        flag = ["--no-execute"] if shell == "fish" else ["-n"]
        subprocess.run([shell, *flag], input=ran.stdout, text=True, check=True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("bursar", "su"), {"submit"}),
        (("bursar", "fleet", "ap"), {"apply"}),
        (("bursar", "queue", "-o", "y"), {"yaml"}),
        (("bursar", "queue", "--wat"), {"--watch"}),
        (("bursar", "token", "create", "--role", "a"), {"admin"}),
        (("bursar", "ps", "--wai"), {"--waiting"}),
    ],
)
def test_bash_completes(words: tuple[str, ...], expected: set[str]) -> None:
    script = bursar("completion", "bash").stdout
    quoted = " ".join(shlex.quote(word) for word in words)
    script += f"\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _bursar\n"
    script += "printf '%s\\n' \"${COMPREPLY[@]}\"\n"
    ran = subprocess.run(["bash"], input=script, capture_output=True, text=True, check=True)
    assert set(ran.stdout.split()) == expected, ran.stderr
