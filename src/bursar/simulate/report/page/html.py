"""HTML and SVG elements. Text and attributes are escaped only here.

``Html`` is a separate type: the type checker rejects a plain string, such as a team's name, that was not
escaped by ``text``.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import NewType

Html = NewType("Html", str)

NOTHING = Html("")
VOID = frozenset({"meta", "br", "hr"})
"""Elements that have no end."""


def text(plain: str) -> Html:
    """Escapes text; control characters, which HTML does not allow, become spaces."""
    clean = "".join(c if c.isprintable() or c in "\n\t" else " " for c in plain)
    return Html(escape(clean, quote=True))


def tag(name: str, /, *children: Html, **attributes: object) -> Html:
    """An element. ``class_`` is written ``class``; underscores become hyphens; None is omitted."""
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
    """A coordinate with at most one decimal."""
    written = f"{value:.1f}"
    return written[:-2] if written.endswith(".0") else written


def _plain(value: object) -> str:
    return number(value) if isinstance(value, float) else str(value)
