"""Elements of HTML and SVG. Text and attributes are escaped here and nowhere else.

``Html`` is a type of its own, so that a name of a team cannot reach the page without ``text``: the type
check refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import NewType

Html = NewType("Html", str)

NOTHING = Html("")
VOID = frozenset({"meta", "br", "hr"})
"""Elements that have no end."""


def text(words: str) -> Html:
    """Words as they are to be read; control characters, which HTML does not allow, become blanks."""
    clean = "".join(c if c.isprintable() or c in "\n\t" else " " for c in words)
    return Html(escape(clean, quote=True))


def tag(name: str, /, *children: Html, **attributes: object) -> Html:
    """An element. ``class_`` is written ``class``; underscores become hyphens; None leaves out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(_plain(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{''.join(children)}</{name}>")


def join(parts: Iterable[Html], between: str = "") -> Html:
    return Html(between.join(parts))


def number(value: float) -> str:
    """A coordinate: one decimal is a tenth of a pixel, which nobody sees."""
    written = f"{value:.1f}"
    return written[:-2] if written.endswith(".0") else written


def _plain(value: object) -> str:
    return number(value) if isinstance(value, float) else str(value)
