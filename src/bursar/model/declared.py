"""The types of a class's fields, as its source declares them.

What is written to the log, read from a file or checked at the door follows from these. A class of a compiled
module remembers only that a field holds a tuple, not of what; its source, which is installed beside the
module, still knows.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints


@cache
def declared_types(kind: type) -> Mapping[str, Any]:
    """By field. Whoever gets it must not change it."""
    file = Path(getattr(sys.modules[kind.__module__], "__file__", None) or "")
    if file.suffix not in (".so", ".pyd"):
        return get_type_hints(kind)
    texts = _annotations_in(file.with_name(f"{file.name.partition('.')[0]}.py"))
    found: dict[str, Any] = {}
    for one in reversed(kind.__mro__):
        if one.__module__ == kind.__module__ and one.__name__ in texts:
            said = {"__annotations__": texts[one.__name__], "__module__": one.__module__}
            found |= get_type_hints(type(one.__name__, (), said))
    return found


@cache
def _annotations_in(source: Path) -> dict[str, dict[str, str]]:
    """The texts of the annotations of every class of a file."""
    return {
        one.name: {
            part.target.id: ast.unparse(part.annotation)
            for part in one.body
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
        }
        for one in ast.parse(source.read_text(encoding="utf-8")).body
        if isinstance(one, ast.ClassDef)
    }
