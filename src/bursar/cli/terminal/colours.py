"""Terminal colours of the lines of ``bursar demo``."""

from __future__ import annotations

RESET = "\x1b[0m"
COLOURS = {
    "heading": "\x1b[1m",
    "start": "\x1b[32m",
    "hold": "\x1b[33m",
    "preempt": "\x1b[31m",
    "stop": "\x1b[31m",
    "claim": "\x1b[35m",
    "quota": "\x1b[36m",
    "borrow": "\x1b[36m",
    "partition": "\x1b[34m",
}


def paint(text: str, tone: str) -> str:
    """The text in the colour of its tone, if the tone has one."""
    colour = COLOURS.get(tone)
    return f"{colour}{text}{RESET}" if colour and text else text
