"""A Python file as bytes and as a syntax tree, and one small change to it."""

from __future__ import annotations

import ast
import difflib
import warnings
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes of a file, from start up to end."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change to one file: the bytes of an expression or a statement are replaced."""

    path: str
    line: int
    operator: str
    span: Span
    replacement: str
    is_statement: bool
    # Class and field, where the change is to the default of a field.
    field: tuple[str, str] | None = None

    @property
    def sort_key(self) -> tuple[str, int, int, str, str]:
        return (self.path, self.span.start, self.span.end, self.operator, self.replacement)


class Source:
    """Syntax trees count columns in bytes, so the text is handled as bytes."""

    def __init__(self, path: str, content: bytes) -> None:
        self.path = path
        self.content = content

    @classmethod
    def read(cls, root: Path, path: str) -> Source:
        return cls(path, (root / path).read_bytes())

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.content)

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *accumulate(map(len, self.content.splitlines(keepends=True)))]

    def span(self, first: ast.expr | ast.stmt, last: ast.expr | ast.stmt | None = None) -> Span:
        """From where the first node starts to where the last, or the first itself, ends."""
        last = last or first
        assert last.end_lineno is not None and last.end_col_offset is not None
        return Span(
            self._line_starts[first.lineno - 1] + first.col_offset,
            self._line_starts[last.end_lineno - 1] + last.end_col_offset,
        )

    def text(self, span: Span) -> str:
        return self.content[span.start : span.end].decode()

    def mutated(self, mutant: Mutant) -> bytes:
        before, after = self.content[: mutant.span.start], self.content[mutant.span.end :]
        return before + mutant.replacement.encode() + after

    def compiles_with(self, mutant: Mutant) -> bool:
        """Whether the change is Python, without a warning, and another program than before."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                changed = compile(self.mutated(mutant), self.path, "exec", dont_inherit=True)
            except (SyntaxError, ValueError):
                return False
        return changed != compile(self.content, self.path, "exec", dont_inherit=True)

    def changed_lines(self, mutant: Mutant) -> tuple[str, str]:
        """The lines of the change, each side as one line without indentation."""
        start = self.content.rfind(b"\n", 0, mutant.span.start) + 1
        end = self.content.find(b"\n", mutant.span.end)
        end = len(self.content) if end < 0 else end
        before, after = (
            self.text(Span(start, mutant.span.start)),
            self.text(Span(mutant.span.end, end)),
        )
        sides = self.text(mutant.span), mutant.replacement
        old, new = (" ".join(f"{before}{side}{after}".split()) for side in sides)
        return old, new

    def unified_diff(self, mutant: Mutant) -> str:
        old, new = (
            content.decode().splitlines() for content in (self.content, self.mutated(mutant))
        )
        names = (f"a/{self.path}", f"b/{self.path}")
        return "\n".join(difflib.unified_diff(old, new, *names, lineterm=""))
