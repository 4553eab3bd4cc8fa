"""The ``bursar`` command line.

Only what every command needs is imported at the top, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from bursar import __version__
from bursar.cli import compare, simulate, trace, whatif
from bursar.cli.colours import paint
from bursar.cli.exit_codes import FAILED, INTERRUPTED, OK, WRONG_USAGE
from bursar.cli.output import Subparsers
from bursar.model.errors import UserError

DEMO_SEED = 7

Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        code = run(sys.argv[1:] if arguments is None else list(arguments))
        sys.stdout.flush()
        return code
    except UserError as error:
        complain(error.problem, error.fix)
        return FAILED
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return INTERRUPTED


def run(arguments: list[str]) -> int:
    """Find the command that the arguments name, and run it."""
    parser = build_parser()
    named = next((word for word in arguments if not word.startswith("-")), None)
    if named is not None and named not in COMMANDS:
        complain(f"'{named}' is not a command of bursar.", suggestion(named))
        return WRONG_USAGE
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        of = f"bursar {parsed.command}" if parsed.command else "bursar"
        complain(f"'{unknown[0]}' means nothing to {of}.", f"'{of} --help' lists what it takes.")
        return WRONG_USAGE
    if parsed.command is None:
        parser.print_help()
        return OK
    return COMMANDS[parsed.command](parsed)


def demo(parsed: argparse.Namespace) -> int:
    """Print the demonstration, in colour when people watch."""
    from bursar import wiring

    coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    for line in wiring.demo(seed=parsed.seed, verbose=parsed.verbose):
        print(paint(line.text, line.tone) if coloured else line.text)
    return OK


COMMANDS: dict[str, Command] = {
    "compare": compare.run,
    "demo": demo,
    "simulate": simulate.run,
    "trace": trace.run,
    "whatif": whatif.run,
}


def build_parser() -> argparse.ArgumentParser:
    """Every command and every option, with what it is for."""
    parser: argparse.ArgumentParser = _Parser(
        prog="bursar",
        description="Decides who runs where, when, and at whose cost, for teams that share GPUs.",
        epilog="'bursar COMMAND --help' says more about a command.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"bursar {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    _add_demo(commands)
    for command in (simulate, compare, whatif, trace):
        command.add_parser(commands)
    return parser


def _add_demo(commands: Subparsers) -> None:
    shows = commands.add_parser(
        "demo",
        help="run a demonstration fleet through the simulator; say what happened and why",
        description="Simulates a day of one company with 80 GPUs and three teams, checks every "
        "decision, and tells what happened and why. The same seed gives the same output.",
        allow_abbrev=False,
    )
    shows.add_argument("--verbose", action="store_true", help="tell every moment and every hold")
    shows.add_argument(
        "--seed",
        type=int,
        default=DEMO_SEED,
        metavar="N",
        help=f"when the small jobs arrive and how long they run (default {DEMO_SEED})",
    )


class _Parser(argparse.ArgumentParser):
    """Says what is wrong and what to write instead, as every other error does."""

    def error(self, message: str) -> NoReturn:
        complain(f"{message}.", f"'{self.prog} --help' lists what it takes.")
        raise SystemExit(WRONG_USAGE)


def suggestion(named: str) -> str:
    """The command that was probably meant, and all there are."""
    from difflib import get_close_matches

    close = get_close_matches(named, sorted(COMMANDS), n=1)
    meant = f"did you mean '{close[0]}'? " if close else ""
    return f"{meant}The commands are: {', '.join(sorted(COMMANDS))}."


def complain(problem: str, fix: str) -> None:
    """Two lines on standard error: what is wrong, and how to put it right."""
    print(f"error: {problem}\nfix: {fix}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
