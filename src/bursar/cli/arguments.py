"""How a command is declared, and the options that many commands share."""

from __future__ import annotations

import argparse
import inspect
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

from bursar.cli.exit_codes import WRONG_USAGE
from bursar.cli.terminal.messages import print_error

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

TABLE: Final = "table"
WIDE: Final = "wide"
JSON: Final = "json"
YAML: Final = "yaml"
CSV: Final = "csv"
FORMATS: Final = (TABLE, WIDE, JSON, YAML, CSV)


class Parser(argparse.ArgumentParser):
    """Prints usage errors in the form of all other errors."""

    def error(self, message: str) -> NoReturn:
        print_error(f"{message}.", f"'{self.prog} --help' lists the arguments.")
        raise SystemExit(WRONG_USAGE)


class _Formatter(argparse.HelpFormatter):
    """Wraps descriptions but not examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("example"):
            return text
        return textwrap.fill(" ".join(text.split()), width, initial_indent=indent)


Option = Callable[[argparse._ActionsContainer], object]
"""Adds itself to a parser, or to a group of one."""


def argument(name: str, metavar: str, text: str, **settings: Any) -> Option:
    """An argument, or an option with a value; further settings are those of argparse."""
    return lambda parser: parser.add_argument(name, metavar=metavar, help=text, **settings)


def repeatable(name: str, metavar: str, text: str, **settings: Any) -> Option:
    """An option that may be given several times; its value is a list."""
    return argument(name, metavar, text, action="append", default=[], **settings)


def choice(names: str, choices: Iterable[str], text: str, **settings: Any) -> Option:
    """An option whose value is one of some words."""
    flags, words = names.split(), tuple(choices)
    return lambda parser: parser.add_argument(*flags, choices=words, help=text, **settings)


def flag(names: str, text: str, **settings: Any) -> Option:
    """An option without a value."""
    settings = {"action": "store_true", **settings}
    return lambda parser: parser.add_argument(*names.split(), help=text, **settings)


def group(title: str, *options: Option, description: str | None = None) -> Option:
    """Options under a title of their own."""

    def add(parser: argparse._ActionsContainer) -> None:
        under = parser.add_argument_group(title, description)
        for option in options:
            option(under)

    return add


def one_of(*options: Option) -> Option:
    """Options that exclude each other."""

    def add(parser: argparse._ActionsContainer) -> None:
        exclusive = parser.add_mutually_exclusive_group()
        for option in options:
            option(exclusive)

    return add


@dataclass(frozen=True, slots=True)
class Command:
    """A command, or a verb of one. The first sentence of ``about`` is its summary."""

    name: str
    about: str
    run: Callable[[argparse.Namespace], int]
    options: tuple[Option, ...]
    examples: tuple[str, ...]
    aliases: tuple[str, ...] = ()

    def add_to(self, commands: Subparsers) -> None:
        """Add the parser of the command."""
        summary = " ".join(self.about.partition("\n\n")[0].split()).removesuffix(".")
        title = "example" if len(self.examples) == 1 else "examples"
        parser = commands.add_parser(
            self.name,
            help=f"{summary[:1].lower()}{summary[1:]}",
            description=" ".join(self.about.split()),
            epilog="\n".join([f"{title}:", *(f"  {example}" for example in self.examples)]),
            aliases=list(self.aliases),
            formatter_class=_Formatter,
            allow_abbrev=False,
        )
        for option in self.options:
            option(parser)


def command(
    name: str, *options: Option, examples: tuple[str, ...], aliases: tuple[str, ...] = ()
) -> Callable[[Callable[[argparse.Namespace], int]], Command]:
    """Declare the command that a function runs; the docstring is its help."""

    def declare(run: Callable[[argparse.Namespace], int]) -> Command:
        return Command(name, inspect.getdoc(run) or "", run, options, examples, aliases)

    return declare


def command_of_verbs(
    name: str, about: str, *verbs: Command, examples: tuple[str, ...], noun: str = "verb"
) -> Command:
    """A command whose next argument chooses a command."""

    def add_verbs(parser: argparse._ActionsContainer) -> None:
        assert isinstance(parser, argparse.ArgumentParser)
        below = parser.add_subparsers(
            dest=noun, metavar=noun.upper(), title=f"{noun}s", required=True
        )
        for verb in verbs:
            verb.add_to(below)

    def run(parsed: argparse.Namespace) -> int:
        return functions[getattr(parsed, noun)](parsed)

    functions = {verb.name: verb.run for verb in verbs}
    return Command(name, about, run, (add_verbs,), examples)


def whole(text: str) -> int:
    """Parse a whole number of 0 or more."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)


def one_or_more(text: str) -> int:
    """Parse a whole number of 1 or more."""
    number = whole(text)
    if not number:
        raise argparse.ArgumentTypeError("0 is less than 1")
    return number


def seconds(text: str) -> float:
    """Parse a number of seconds above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return number


def key_value(text: str) -> tuple[str, str]:
    """Parse ``KEY=VALUE``."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


CONNECTION: Final = group(
    "server",
    argument("--server", "URL", "server address (default: BURSAR_SERVER, else the local server)"),
    argument(
        "--token",
        "TOKEN",
        "token (default: BURSAR_TOKEN, else the state folder's); other users of this machine can "
        "see command lines, so prefer the variable",
    ),
    argument(
        "--timeout", "S", "timeout of a request in seconds (default 30)", type=seconds, default=30.0
    ),
)
FORMAT: Final = group(
    "output",
    choice("-o --output", FORMATS, "output format (default: table)", default=TABLE),
    flag("--json", "same as -o json", dest="output", action="store_const", const=JSON),
    flag("--no-color", "disable colours (also: NO_COLOR=1)"),
)
YES: Final = flag("-y --yes", "do not ask for confirmation")
PRINT_JSON: Final = flag("--json", "print JSON")
WATCH: Final = argument(
    "--watch",
    "S",
    "repeat every S seconds (default 2) until Ctrl-C",
    nargs="?",
    type=seconds,
    const=2.0,
)


def limit(rows: int, noun: str = "rows") -> Option:
    """How many rows to show."""
    text = f"show at most N {noun} (default {rows})"
    return argument("--limit", "N", text, type=one_or_more, default=rows)


def listing(rows: int = 50) -> tuple[Option, ...]:
    """Options of commands that list what changes."""
    return FORMAT, limit(rows), WATCH, CONNECTION


FLEET: Final = argument("--fleet", "FILE", "fleet file or folder", required=True)
