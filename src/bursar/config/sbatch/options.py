"""Parses an sbatch script into its interpreter, options and commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from bursar.model.errors import UserError

LONG_NAMES = {
    "A": "account",
    "a": "array",
    "b": "begin",
    "C": "constraint",
    "c": "cpus-per-task",
    "D": "chdir",
    "d": "dependency",
    "e": "error",
    "F": "nodefile",
    "G": "gpus",
    "H": "hold",
    "i": "input",
    "J": "job-name",
    "k": "no-kill",
    "L": "licenses",
    "M": "clusters",
    "m": "distribution",
    "N": "nodes",
    "n": "ntasks",
    "O": "overcommit",
    "o": "output",
    "p": "partition",
    "Q": "quiet",
    "q": "qos",
    "S": "core-spec",
    "s": "oversubscribe",
    "t": "time",
    "v": "verbose",
    "W": "wait",
    "w": "nodelist",
    "x": "exclude",
}
ALIASES = {"workdir": "chdir", "share": "oversubscribe"}
WITHOUT_VALUE = frozenset(
    {"contiguous", "exclusive", "get-user-env", "hold", "ignore-pbs", "kill-on-invalid-dep"}
    | {"no-kill", "no-requeue", "overcommit", "oversubscribe", "parsable", "quiet", "reboot"}
    | {"requeue", "spread-job", "test-only", "use-min-nodes", "verbose", "wait", "wait-all-nodes"}
)
_DIRECTIVE = re.compile(r"#SBATCH(?:\s+(.*))?\Z")
_HETEROGENEOUS = re.compile(r"(hetjob|packjob|:)\s*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class SbatchOption:
    """An option: its long name without dashes, its value and its line number."""

    name: str
    value: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A parsed batch script: its interpreter, options and commands."""

    interpreter: str
    options: tuple[SbatchOption, ...]
    body: str
    late_lines: tuple[int, ...]
    """Lines with options after the first command, which Slurm ignores."""


def read_script(text: str, file: str) -> Script:
    """Parse a script as sbatch does: options end at the first command."""
    lines = text.replace("\r\n", "\n").split("\n")
    interpreter = lines[0][2:].strip() if lines[0].startswith("#!") else ""
    options: list[SbatchOption] = []
    late_lines: list[int] = []
    body: list[str] = []
    in_commands = False
    for number, line in enumerate(lines, start=1):
        if number == 1 and line.startswith("#!"):
            continue
        directive = _DIRECTIVE.match(line)
        if directive is None:
            in_commands = in_commands or bool(line.strip() and not line.lstrip().startswith("#"))
            body.append(line)
        elif in_commands:
            late_lines.append(number)
        else:
            options += _parse_options((directive[1] or "").strip(), number, file)
    return Script(
        interpreter=interpreter,
        options=tuple(options),
        body="\n".join(body).strip("\n"),
        late_lines=tuple(late_lines),
    )


def _parse_options(text: str, line: int, file: str) -> Iterator[SbatchOption]:
    if _HETEROGENEOUS.match(text):
        raise UserError(
            f"{file}:{line}: the script asks for a heterogeneous job, one with unlike parts.",
            fix="Split it into one script for each part, and submit them one by one.",
            code="hetjob",
        )
    try:
        words = shlex.split(text, comments=True)
    except ValueError as error:
        raise UserError(
            f"{file}:{line}: the line cannot be read: {str(error).lower()}.",
            fix="Close the quotes.",
            code="not-sbatch",
        ) from error
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if not word.startswith("-") or word == "-":
            raise UserError(
                f"{file}:{line}: {word[:60]!r} is not an option of sbatch.",
                fix="Options begin with '-' or '--'; put values after '=', in quotes if need be.",
                code="not-sbatch",
            )
        name, value = _split_option(word)
        if value is None and name not in WITHOUT_VALUE:
            value = words[position] if position < len(words) else ""
            position += 1
        yield SbatchOption(name=name, value=value or "", line=line)


def _split_option(word: str) -> tuple[str, str | None]:
    """Return the long name, and the value if it is in the same word."""
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        return ALIASES.get(name, name), value if equals else None
    name = LONG_NAMES.get(word[1], word[1])
    rest = word[2:].removeprefix("=")
    return name, rest if len(word) > 2 else None
