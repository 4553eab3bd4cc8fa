"""Rules for files that are not packed: the common subset of ``.gitignore``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

IGNORE_FILES: Final = (".bursarignore", ".gitignore")
NEVER_PACKED: Final = (".git/", "__pycache__/", ".bursarignore", "*.pyc")


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    """One line. The last matching rule decides; ``keeps`` (``!``) includes the file again."""

    pattern: re.Pattern[str]
    keeps: bool
    folders_only: bool


@dataclass(frozen=True, slots=True)
class Ignored:
    """The rules of one folder."""

    rules: tuple[IgnoreRule, ...]

    def covers(self, path: str, *, is_folder: bool) -> bool:
        """Whether ``path``, relative to the folder and with ``/``, is ignored."""
        covered = False
        for rule in self.rules:
            if (is_folder or not rule.folders_only) and rule.pattern.fullmatch(path):
                covered = not rule.keeps
        return covered


def read_ignored(folder: Path) -> Ignored:
    """The rules of ``.bursarignore``, else of ``.gitignore``; some files are always ignored."""
    for name in IGNORE_FILES:
        try:
            lines = (folder / name).read_text(encoding="utf-8").splitlines()
        except (FileNotFoundError, NotADirectoryError):
            continue
        return rules_of([*NEVER_PACKED, *lines])
    return rules_of(NEVER_PACKED)


def rules_of(lines: Iterable[str]) -> Ignored:
    """Parses lines as rules; blank lines and comments are skipped."""
    rules = []
    for line in lines:
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        keeps = text.startswith("!")
        text = text.removeprefix("!")
        folders_only = text.endswith("/")
        text = text.rstrip("/")
        if text:
            rules.append(IgnoreRule(_pattern(text), keeps, folders_only))
    return Ignored(tuple(rules))


def _pattern(text: str) -> re.Pattern[str]:
    """A pattern with a slash is relative to the folder; without one it matches at any depth."""
    parts = [] if "/" in text else ["(?:.*/)?"]
    for piece in re.findall(r"\*\*/|/\*\*|\*\*|\*|\?|\[[^\]/]+\]|[^*?\[]+|\[", text.lstrip("/")):
        parts.append(_piece(piece))
    return re.compile("".join(parts), re.DOTALL)


def _piece(piece: str) -> str:
    match piece:
        case "**/":
            return "(?:.*/)?"
        case "/**":
            return "/.*"
        case "**":
            return ".*"
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
    if piece.startswith("[") and piece.endswith("]") and len(piece) > 2:
        inner = piece[1:-1].replace("\\", "\\\\").replace("[", "\\[")
        return f"[{'^' + inner[1:] if inner[0] in '!^' else inner}]"
    return re.escape(piece)
