"""Sizes and names: how long, how many, and called what."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.tidy.source import Finding, Source

FUNCTION_LINES = 60
FILE_LINES = 500
TEST_FILE_LINES = 600
# One idea that needs more lines than others. docs/decisions/0027-rooms.md argues for each.
LONGER_FILES = {
    "src/bursar/core/state/fleet_state.py": 560,
    "src/bursar/engines/slurm/driven/engine.py": 540,
}
PARAMETERS = 5

BANNED_WORDS = frozenset(
    {"manager", "helper", "util", "common", "misc", "base", "handler", "processor", "service"}
    | {"info", "data", "wrapper"}
)
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions_are_short(source: Source) -> list[Finding]:
    """A function is read in one look."""
    findings = []
    for function, _ in _functions(source):
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        if length > FUNCTION_LINES:
            rule = f"{function.name}() has {length} lines, more than {FUNCTION_LINES}"
            fix = "push the ifs up into one parent and move the leaves out as pure functions"
            findings.append(source.finding(function.lineno, rule, fix))
    return findings


def files_are_short(source: Source) -> list[Finding]:
    """A file holds one idea."""
    if source.path.suffix != ".py":
        return []
    limit = TEST_FILE_LINES if source.path.parts[0] == "tests" else FILE_LINES
    limit = LONGER_FILES.get(source.path.as_posix(), limit)
    length = len(source.text.splitlines())
    if length <= limit:
        return []
    rule = f"the file has {length} lines, more than {limit}"
    return [source.finding(limit + 1, rule, "move one of its ideas to a module of its own")]


def parameters_are_few(source: Source) -> list[Finding]:
    """Five parameters, keyword-only ones included; self and cls are free."""
    findings = []
    for function, in_class in _functions(source):
        count = _parameter_count(function, in_class)
        if count > PARAMETERS:
            rule = f"{function.name}() takes {count} parameters, more than {PARAMETERS}"
            fix = "gather those that belong together in a frozen dataclass with a name"
            findings.append(source.finding(function.lineno, rule, fix))
    return findings


def names_say_what_things_are(source: Source) -> list[Finding]:
    """A file, folder or class named after no particular job has no particular job."""
    findings = []
    for name in source.path.parts:
        word = _banned_word(name)
        if word:
            findings.append(_bad_name(source, 1, name, word))
    for node in source.nodes:
        if isinstance(node, ast.ClassDef):
            word = _banned_word(node.name)
            if word:
                findings.append(_bad_name(source, node.lineno, node.name, word))
    return findings


def _functions(source: Source) -> Iterator[tuple[Function, bool]]:
    """Every function, and whether it stands directly in a class."""
    for parent in source.nodes:
        for child in ast.iter_child_nodes(parent):
            if isinstance(child, Function):
                yield child, isinstance(parent, ast.ClassDef)


def _parameter_count(function: Function, in_class: bool) -> int:
    arguments = function.args
    count = len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)
    count += (arguments.vararg is not None) + (arguments.kwarg is not None)
    static = any(
        isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list
    )
    return count - 1 if in_class and not static else count


def _banned_word(name: str) -> str | None:
    for word in WORD.findall(name):
        lower = word.lower()
        if lower in BANNED_WORDS or lower.removesuffix("s") in BANNED_WORDS:
            return lower
    return None


def _bad_name(source: Source, line: int, name: str, word: str) -> Finding:
    rule = f"the name '{name}' contains '{word}', which says nothing"
    return source.finding(line, rule, "name what the thing does or is in the words of the trade")
