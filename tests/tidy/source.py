"""A file of the project as the rules see it, and what a rule has to say about it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

NOT_OURS = frozenset({".git", ".venv", ".hypothesis", "__pycache__", "build", "dist"})
TEXT_SUFFIXES = frozenset(
    {"", ".cfg", ".css", ".html", ".js", ".json", ".md", ".py", ".sh", ".sql", ".toml"}
    | {".txt", ".typed", ".yaml", ".yml"}
)


@dataclass(frozen=True)
class Finding:
    """One breach of one rule. Read as a sentence it says where, what, and what to do instead."""

    path: Path
    line: int
    rule: str
    fix: str

    def __str__(self) -> str:
        return f"{self.path.as_posix()}:{self.line}: {self.rule}. Fix: {self.fix}."


@dataclass(frozen=True)
class Source:
    """One text file. ``path`` is relative to ``root``; findings read the same everywhere."""

    root: Path
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module | None:
        """The syntax tree, or None for a file that is not Python or does not parse."""
        if self.path.suffix != ".py" or self.syntax_error:
            return None
        return ast.parse(self.text)

    @cached_property
    def syntax_error(self) -> SyntaxError | None:
        """What keeps a Python file from being read, so that one rule says it once."""
        try:
            if self.path.suffix == ".py":
                ast.parse(self.text)
        except SyntaxError as error:
            return error
        return None

    @property
    def nodes(self) -> Iterator[ast.AST]:
        """Every syntax node; none where there is no tree."""
        return ast.walk(self.tree) if self.tree else iter(())

    @property
    def in_package(self) -> bool:
        """Whether this is code we ship, rather than a test, a benchmark or a page."""
        return self.path.suffix == ".py" and self.path.parts[:2] == ("src", "bursar")

    @property
    def part(self) -> str:
        """The part of the package a module belongs to: ``core``, ``ports``; ``""`` for the root."""
        if not self.in_package:
            return ""
        name = self.path.parts[2].removesuffix(".py")
        return "" if name == "__init__" else name

    def finding(self, line: int, rule: str, fix: str) -> Finding:
        return Finding(self.path, line, rule, fix)


def project_sources(root: Path = ROOT) -> tuple[Source, ...]:
    """Every text file of the project, in order of path."""
    return tuple(
        Source(root, path.relative_to(root), path.read_text(encoding="utf-8"))
        for path in sorted(_files(root))
        if path.suffix in TEXT_SUFFIXES
    )


def _files(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name in NOT_OURS or entry.name.endswith((".egg-info", "_cache")):
            continue
        if entry.is_dir():
            yield from _files(entry)
        elif entry.is_file():
            yield entry
