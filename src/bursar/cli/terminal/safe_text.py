"""Text from others on our terminal. A name or a log line must not move the cursor, rename the window,
fill the clipboard or turn the reading direction."""

from __future__ import annotations

import re
from typing import Final

COLOUR: Final = re.compile(r"\x1b\[[0-9;:]*m")
UNSAFE_IN_LINES: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
UNSAFE_IN_A_LINE: Final = re.compile(f"[\t\n]|{UNSAFE_IN_LINES.pattern}")


def one_line(value: object) -> str:
    """For a cell of a table: what is not to be seen is written out."""
    return UNSAFE_IN_A_LINE.sub(_written_out, str(value))


def lines(value: object) -> str:
    """For messages: ends of lines and tabs stay, colours go, the rest is written out."""
    return UNSAFE_IN_LINES.sub(_written_out, COLOUR.sub("", str(value)))


def log_lines(text: str) -> str:
    """For output of jobs: a bar that draws over itself becomes one line for each picture."""
    return lines(text.replace("\r\n", "\n").replace("\r", "\n"))


def csv_cell(value: object) -> str:
    """For a spreadsheet, which would take some texts for formulas."""
    text = str(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _written_out(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
