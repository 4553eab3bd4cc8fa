"""Which mutants of the project are judged: some of them, chosen by a seed."""

from __future__ import annotations

import ast
import random
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from tools.mutants.operators import mutants_of
from tools.mutants.source import Mutant, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project to judge. Folders are relative to the root; absent ones are ignored."""

    root: Path
    package: str
    parts: tuple[str, ...]
    test_folders: tuple[str, ...]

    def sources(self, pattern: str = "*") -> list[Source]:
        """The files to mutate whose path, from the root or from the package, matches."""
        top = self.root / self.package
        found = sorted(file for part in self.parts for file in (top / part).rglob("*.py"))
        return [
            Source.read(self.root, file.relative_to(self.root).as_posix())
            for file in found
            if any(
                fnmatch(file.relative_to(start).as_posix(), pattern) for start in (self.root, top)
            )
        ]

    def test_files(self) -> list[str]:
        return sorted(
            file.relative_to(self.root).as_posix()
            for folder in self.test_folders
            for file in (self.root / folder).rglob("test_*.py")
        )

    def part_of(self, mutant: Mutant) -> str:
        return mutant.path.removeprefix(f"{self.package}/").partition("/")[0]


def sample(
    project: Project, sources: dict[str, Source], candidates: list[Mutant], count: int, seed: int
) -> list[Mutant]:
    """So many mutants, the same ones for the same code and seed, and some of every part."""
    shuffled = sorted(candidates, key=lambda mutant: mutant.sort_key)
    random.Random(seed).shuffle(shuffled)
    first_of_part: dict[str, Mutant] = {}
    for mutant in shuffled:
        first_of_part.setdefault(project.part_of(mutant), mutant)
    # A dictionary keeps the order and each mutant once.
    ordered = dict.fromkeys([*first_of_part.values(), *shuffled])
    chosen: list[Mutant] = []
    for mutant in ordered:
        if len(chosen) == count:
            break
        if sources[mutant.path].compiles_with(mutant) and default_is_used(project.root, mutant):
            chosen.append(mutant)
    return sorted(chosen, key=lambda mutant: mutant.sort_key)


def candidates_in(sources: dict[str, Source]) -> list[Mutant]:
    return [mutant for source in sources.values() for mutant in mutants_of(source)]


def default_is_used(root: Path, mutant: Mutant) -> bool:
    """Whether someone makes the class without the field whose default the mutant changes."""
    if mutant.field is None:
        return True
    name, field = mutant.field
    return any(
        _leaves_out(call, name, field)
        for folder in ("src", "tests")
        for file in sorted((root / folder).rglob("*.py"))
        if f"{name}(" in (text := file.read_text(encoding="utf-8"))
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call)
    )


def _leaves_out(call: ast.Call, name: str, field: str) -> bool:
    called = call.func.attr if isinstance(call.func, ast.Attribute) else call.func
    is_class = called == name or (isinstance(called, ast.Name) and called.id == name)
    return is_class and not call.args and all(one.arg not in (field, None) for one in call.keywords)
