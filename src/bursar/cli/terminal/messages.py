"""Messages on standard error: errors, notes, warnings and questions."""

from __future__ import annotations

import sys

from bursar.cli.exit_codes import FAILED, OK, WRONG_USAGE
from bursar.cli.terminal.safe_text import lines


def print_error(problem: str, fix: str) -> None:
    """Print two lines: the problem and the fix."""
    print(f"error: {lines(problem)}\nfix: {lines(fix)}", file=sys.stderr)


def print_note(text: str) -> None:
    """Print a note for the user."""
    print(lines(text), file=sys.stderr)


def warn(text: str) -> None:
    """Print a warning."""
    print(f"warning: {lines(text)}", file=sys.stderr)


def is_interactive() -> bool:
    """Whether a user at a terminal can answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str, *, default: bool) -> bool:
    """Ask a yes/no question. Call it only if ``is_interactive``."""
    print(
        f"{lines(question)} [{'Y/n' if default else 'y/N'}] ", end="", file=sys.stderr, flush=True
    )
    reply = sys.stdin.readline().strip().lower()
    return default if not reply else reply in ("y", "yes")


def refused(question: str, *, subject: str, otherwise: str) -> int:
    """Ask for confirmation; returns 0 if it is given, else the exit code."""
    if not is_interactive():
        print_error(f"cannot confirm {subject}: not a terminal.", "Pass --yes.")
        return WRONG_USAGE
    if not confirm(question, default=False):
        print_note(otherwise)
        return FAILED
    return OK
