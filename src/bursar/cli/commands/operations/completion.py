"""``bursar completion``: completion scripts for shells.

The scripts contain all words, so pressing the tab key starts no interpreter.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bursar.cli.arguments import argument, command
from bursar.cli.exit_codes import OK

SHELLS: Final = ("bash", "zsh", "fish")


@dataclass(frozen=True, slots=True)
class CompletionWords:
    """What may follow ``path``: verbs and options, each with its help text."""

    path: tuple[str, ...]
    verbs: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, str], ...]
    choices: tuple[tuple[str, tuple[str, ...]], ...]


@command(
    "completion",
    argument("shell", "SHELL", "bash, zsh or fish", choices=SHELLS),
    examples=(
        "bursar completion bash > ~/.local/share/bash-completion/completions/bursar",
        "bursar completion zsh > ~/.zfunc/_bursar",
        "bursar completion fish > ~/.config/fish/completions/bursar.fish",
    ),
)
def completion(parsed: argparse.Namespace) -> int:
    """Print a completion script for a shell."""
    from bursar.cli.main import build_parser

    words = list(words_of(build_parser(), ()))
    write = {"bash": bash, "zsh": zsh, "fish": fish}[parsed.shell]
    print(write(words))
    return OK


def words_of(parser: argparse.ArgumentParser, path: tuple[str, ...]) -> Iterator[CompletionWords]:
    """The words of a parser and of all its subparsers."""
    verbs: list[tuple[str, str]] = []
    below: dict[str, argparse.ArgumentParser] = {}
    options: list[tuple[str, str]] = []
    choices: list[tuple[str, tuple[str, ...]]] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            summaries = {one.dest: one.help or "" for one in action._choices_actions}
            below = dict(action.choices)
            named = {id(one): name for name, one in reversed(below.items())}
            verbs = [(name, summaries.get(named[id(one)], "")) for name, one in below.items()]
        for option in action.option_strings:
            options.append((option, action.help or ""))
            if action.choices:
                choices.append((option, tuple(map(str, action.choices))))
    yield CompletionWords(path, tuple(verbs), tuple(options), tuple(choices))
    for name, one in below.items():
        yield from words_of(one, (*path, name))


def bash(words: list[CompletionWords]) -> str:
    """A script for bash."""
    cases = []
    for one in words:
        for option, values in one.choices:
            cases.append(f'    "{" ".join(one.path)}|{option}") words="{" ".join(values)}" ;;')
    path_cases = [
        f'    "{" ".join(one.path)}") words="'
        + " ".join([name for name, _ in one.verbs] + [name for name, _ in one.options])
        + '" ;;'
        for one in words
    ]
    return "\n".join(
        [
            "# bash completion for bursar",
            "_bursar() {",
            '  local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"',
            '  local path="" word words="" deeper',
            '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
            '    deeper="${path:+$path }$word"',
            f'    case "|{"|".join(" ".join(one.path) for one in words if one.path)}|" in',
            '      *"|$deeper|"*) path="$deeper" ;;',
            "    esac",
            "  done",
            '  case "$path|$before" in',
            *cases,
            "  esac",
            '  [ -n "$words" ] || case "$path" in',
            *path_cases,
            "  esac",
            '  COMPREPLY=($(compgen -W "$words" -- "$current"))',
            '  [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$current"))',
            "}",
            "complete -o filenames -F _bursar bursar",
        ]
    )


def zsh(words: list[CompletionWords]) -> str:
    """The bash script, through zsh's bashcompinit."""
    return "\n".join(
        [
            "#compdef bursar",
            "autoload -U +X bashcompinit && bashcompinit",
            bash(words),
        ]
    )


def fish(words: list[CompletionWords]) -> str:
    """A script for fish."""
    lines = ["# fish completion for bursar"]
    for one in words:
        condition = _fish_condition(one)
        for name, summary in one.verbs:
            lines.append(
                f"complete -c bursar -f -n '{condition}' -a {name} -d '{_quoted(summary)}'"
            )
        known = dict(one.choices)
        for option, summary in one.options:
            flag = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            values = f" -x -a '{' '.join(known[option])}'" if option in known else ""
            lines.append(
                f"complete -c bursar -n '{condition}' {flag}{values} -d '{_quoted(summary)}'"
            )
    return "\n".join(lines)


def _fish_condition(one: CompletionWords) -> str:
    if not one.path:
        return "__fish_use_subcommand"
    seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in one.path)
    below = " ".join(name for name, _ in one.verbs)
    return f"{seen}; and not __fish_seen_subcommand_from {below}" if below else seen


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'").replace("%%", "%")
