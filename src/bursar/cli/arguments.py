"""The parser of a command, and the options that many commands share."""

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


def new_parser(
    commands: Subparsers,
    name: str,
    words: tuple[str, str],
    examples: Sequence[str],
    aliases: Sequence[str] = (),
) -> argparse.ArgumentParser:
    """Add a command; ``words`` are its one-line summary and further sentences."""
    summary, details = words
    title = "example" if len(examples) == 1 else "examples"
    return commands.add_parser(
        name,
        help=summary,
        description=f"{summary[:1].upper()}{summary[1:]}. {details}".rstrip(),
        epilog="\n".join([f"{title}:", *(f"  {example}" for example in examples)]),
        aliases=list(aliases),
        formatter_class=_Formatter,
        allow_abbrev=False,
    )


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Options for the server and the token."""
    group = parser.add_argument_group("server")
    group.add_argument(
        "--server",
        metavar="URL",
        help="server address (default: BURSAR_SERVER, else the local server)",
    )
    group.add_argument(
        "--token",
        metavar="TOKEN",
        help="token (default: BURSAR_TOKEN, else the state folder's); other users of this machine can "
        "see command lines, so prefer the variable",
    )
    group.add_argument(
        "--timeout",
        type=seconds,
        default=30.0,
        metavar="S",
        help="timeout of a request in seconds (default 30)",
    )


def add_format(parser: argparse.ArgumentParser) -> None:
    """Options for the output format."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o", "--output", choices=FORMATS, default=TABLE, help="output format (default: table)"
    )
    group.add_argument(
        "--json", dest="output", action="store_const", const=JSON, help="same as -o json"
    )
    group.add_argument("--no-color", action="store_true", help="disable colours (also: NO_COLOR=1)")


def add_list(parser: argparse.ArgumentParser, *, watch: bool = True, limit: int = 50) -> None:
    """Options of commands that list things."""
    add_format(parser)
    parser.add_argument(
        "--limit",
        type=one_or_more,
        default=limit,
        metavar="N",
        help=f"show at most N rows (default {limit})",
    )
    if watch:
        parser.add_argument(
            "--watch",
            nargs="?",
            type=seconds,
            const=2.0,
            metavar="S",
            help="repeat every S seconds (default 2) until Ctrl-C",
        )
    add_connection(parser)


def add_yes(parser: argparse.ArgumentParser) -> None:
    """The option that skips the confirmation."""
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")


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
