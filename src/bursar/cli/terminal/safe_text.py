"""Untrusted text made safe for a terminal.

A name or a log line must not move the cursor, rename the window, fill the clipboard or change the
reading direction.
"""

from __future__ import annotations

import re
from typing import Final

COLOUR: Final = re.compile(r"\x1b\[[0-9;:]*m")
UNSAFE_IN_LINES: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
UNSAFE_IN_A_LINE: Final = re.compile(f"[\t\n]|{UNSAFE_IN_LINES.pattern}")


def one_line(value: object) -> str:
    """Text for a table cell: control characters are escaped."""
    return UNSAFE_IN_A_LINE.sub(_escaped, str(value))


def lines(value: object) -> str:
    """Text for messages: line ends and tabs stay, colours go, other controls are escaped."""
    return UNSAFE_IN_LINES.sub(_escaped, COLOUR.sub("", str(value)))


def log_lines(text: str) -> str:
    """Output of a job: a progress bar becomes one line for each update."""
    return lines(text.replace("\r\n", "\n").replace("\r", "\n"))


def csv_cell(value: object) -> str:
    """Text for a spreadsheet, quoted if it would be read as a formula."""
    text = str(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _escaped(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
