"""What goes to standard error: complaints, chatter, and questions."""

from __future__ import annotations

import sys

from bursar.cli.terminal.safe_text import lines


def print_error(problem: str, fix: str) -> None:
    """Two lines on standard error: what is wrong, and how to put it right."""
    print(f"error: {lines(problem)}\nfix: {lines(fix)}", file=sys.stderr)


def print_note(text: str) -> None:
    """Something for people beside the output."""
    print(lines(text), file=sys.stderr)


def warn(text: str) -> None:
    """Something that may matter later."""
    print(f"warning: {lines(text)}", file=sys.stderr)


def is_interactive() -> bool:
    """Whether there is anybody to ask."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str, *, default: bool) -> bool:
    """Ask. Only where ``is_interactive``."""
    print(
        f"{lines(question)} [{'Y/n' if default else 'y/N'}] ", end="", file=sys.stderr, flush=True
    )
    said = sys.stdin.readline().strip().lower()
    return default if not said else said in ("y", "yes")
