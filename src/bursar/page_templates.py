"""Renders HTML pages from ``templates/``, with style sheets and scripts from ``static/``."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

PACKAGE = Path(__file__).parent


@cache
def environment() -> Environment:
    """All templates: values are escaped, and a name without a value is an error."""
    environment = Environment(
        loader=FileSystemLoader(PACKAGE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["coordinate"] = coordinate
    environment.filters["csp_source"] = csp_source
    environment.globals["static"] = static
    return environment


def static(name: str) -> Markup:
    """A packaged file, to be inlined without escaping."""
    return Markup((PACKAGE / "static" / name).read_text(encoding="utf-8"))


def csp_source(script: str) -> str:
    """The source of an inline script in a Content-Security-Policy: its hash."""
    return f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"


def coordinate(value: float) -> str:
    """A coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def _printable(value: object) -> object:
    """Control characters, which HTML does not allow, become spaces."""
    if isinstance(value, Markup) or not isinstance(value, str) or value.isprintable():
        return value
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in value)
