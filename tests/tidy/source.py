"""A file of the project as the rules see it, and what a rule has to say about it."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path

from tests.children import clean_environment

ROOT = Path(__file__).resolve().parents[2]

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
    def _parsed(self) -> ast.Module | SyntaxError | None:
        if self.path.suffix != ".py":
            return None
        try:
            return ast.parse(self.text)
        except SyntaxError as error:
            return error

    @property
    def tree(self) -> ast.Module | None:
        """The syntax tree, or None for a file that is not Python or does not parse."""
        return self._parsed if isinstance(self._parsed, ast.Module) else None

    @property
    def syntax_error(self) -> SyntaxError | None:
        """What keeps a Python file from being read, so that one rule says it once."""
        return self._parsed if isinstance(self._parsed, SyntaxError) else None

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every syntax node; none where there is no tree."""
        return tuple(ast.walk(self.tree)) if self.tree else ()

    @property
    def in_package(self) -> bool:
        """Whether this is code we ship, rather than a test, a benchmark or a page."""
        return self.path.suffix == ".py" and self.path.parts[:2] == ("src", "bursar")

    @property
    def has_readme_rules(self) -> bool:
        """Whether its folder must introduce itself: the package and the studies."""
        in_studies = self.path.suffix == ".py" and self.path.parts[0] == "studies"
        return self.in_package or in_studies

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


def _files(root: Path) -> Iterator[Path]:
    """What git tracks or would track; without git, what ``.gitignore`` does not name."""
    names = _names_in_git(root)
    if names is not None:
        yield from {root / name for name in names if (root / name).is_file()}
        return
    ignore = root / ".gitignore"
    lines = ignore.read_text(encoding="utf-8").splitlines() if ignore.exists() else []
    patterns = [line for line in lines if line and not line.startswith("#")]
    yield from _walk(root, root, [".git", "PKG-INFO", *patterns])  # the latter is in every sdist


def _names_in_git(root: Path) -> list[str] | None:
    """None where there is no checkout, or no git that will read it."""
    if not (root / ".git").exists():
        return None
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(
            command, cwd=root, env=clean_environment(), capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return listed.stdout.split("\0")


def _walk(folder: Path, root: Path, patterns: list[str]) -> Iterator[Path]:
    for entry in folder.iterdir():
        if any(_is_ignored(entry, root, pattern) for pattern in patterns):
            continue
        if entry.is_dir():
            yield from _walk(entry, root, patterns)
        elif entry.is_file():
            yield entry


def _is_ignored(entry: Path, root: Path, pattern: str) -> bool:
    """As git reads a pattern; one with a slash inside is a path from the root."""
    if pattern.endswith("/") and not entry.is_dir():
        return False
    pattern = pattern.removesuffix("/")
    if "/" in pattern:
        return fnmatch(entry.relative_to(root).as_posix(), pattern.removeprefix("/"))
    return fnmatch(entry.name, pattern)
