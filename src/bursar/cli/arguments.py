"""How commands declare themselves, and the options that many of them take."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from typing import Final, NoReturn, TypeAlias

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
    """Says what is wrong and what to write instead, as every other error does."""

    def error(self, message: str) -> NoReturn:
        print_error(f"{message}.", f"'{self.prog} --help' lists what it takes.")
        raise SystemExit(WRONG_USAGE)


class _Formatter(argparse.HelpFormatter):
    """Descriptions are wrapped, examples are left as they are typed."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("example"):
            return text
        return textwrap.fill(" ".join(text.split()), width, initial_indent=indent)


def new_parser(
    commands: Subparsers,
    name: str,
    words: tuple[str, str],
    examples: Sequence[str],
    aliases: Sequence[str] = (),
) -> argparse.ArgumentParser:
    """A command with a line for the list, a description, and lines that can be typed."""
    line, description = words
    title = "example" if len(examples) == 1 else "examples"
    return commands.add_parser(
        name,
        help=line,
        description=description or f"{line[:1].upper()}{line[1:]}.",
        epilog="\n".join([f"{title}:", *(f"  {example}" for example in examples)]),
        aliases=list(aliases),
        formatter_class=_Formatter,
        allow_abbrev=False,
    )


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Which server, and who asks."""
    group = parser.add_argument_group("server")
    group.add_argument(
        "--server", metavar="URL", help="its address (default: BURSAR_SERVER, else this machine's)"
    )
    group.add_argument(
        "--token",
        metavar="TOKEN",
        help="who asks (default: BURSAR_TOKEN, else the state folder's); others on this machine can "
        "see what is typed, so prefer the variable",
    )
    group.add_argument(
        "--timeout",
        type=seconds,
        default=30.0,
        metavar="S",
        help="give up on an answer after so many seconds (default 30)",
    )


def add_format(parser: argparse.ArgumentParser) -> None:
    """For people or for programs."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o", "--output", choices=FORMATS, default=TABLE, help="how to show it (default: table)"
    )
    group.add_argument(
        "--json", dest="output", action="store_const", const=JSON, help="the same as -o json"
    )
    group.add_argument(
        "--no-color", action="store_true", help="no colours (also by the variable NO_COLOR)"
    )


def add_list(parser: argparse.ArgumentParser, *, watch: bool = True, limit: int = 50) -> None:
    """Options of every list."""
    add_format(parser)
    parser.add_argument(
        "--limit",
        type=one_or_more,
        default=limit,
        metavar="N",
        help=f"at most N rows (default {limit})",
    )
    if watch:
        parser.add_argument(
            "--watch",
            nargs="?",
            type=seconds,
            const=2.0,
            metavar="S",
            help="show it again every S seconds (2 if not said), until Ctrl-C",
        )
    add_connection(parser)


def add_yes(parser: argparse.ArgumentParser) -> None:
    """For those who cannot be asked."""
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def whole(text: str) -> int:
    """A whole number of 0 or more, as argparse wants to hear of it."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)


def one_or_more(text: str) -> int:
    """A whole number of 1 or more."""
    number = whole(text)
    if not number:
        raise argparse.ArgumentTypeError("0 is too few")
    return number


def seconds(text: str) -> float:
    """A time of more than nothing."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return number


def key_value(text: str) -> tuple[str, str]:
    """``KEY=VALUE``."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value
