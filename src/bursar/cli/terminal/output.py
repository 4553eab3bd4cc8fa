"""JSON on standard output, and pages in files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from bursar.wiring.simulation import cannot_write


def print_json(plain: Mapping[str, object]) -> None:
    """Print one object as indented JSON."""
    print(json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False))


def expect_writable(path: str | None) -> None:
    """Check before a long run that its page can be written."""
    if path is None:
        return
    try:
        Path(path).open("a", encoding="utf-8").close()
    except OSError as error:
        raise cannot_write(path, error) from error


def write_page(path: str, html: str) -> None:
    """Write a self-contained HTML page."""
    try:
        Path(path).write_text(html, encoding="utf-8")
    except OSError as error:
        raise cannot_write(path, error) from error
