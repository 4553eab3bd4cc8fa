"""Which part may import which, and what the pure parts may import at all."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.source import ROOT, Finding, Source

PURE = frozenset({"model", "core", "accounting", "catalog", "governance"})
SHELL = frozenset({"model", "core", "accounting", "catalog", "governance", "ports"})

# part -> the other parts it may import. ARCHITECTURE.md draws the same picture.
ARROWS: dict[str, frozenset[str]] = {
    "": frozenset({"client"}),
    "__main__": frozenset({"cli"}),
    "model": frozenset(),
    "core": frozenset({"model"}),
    "accounting": frozenset({"model"}),
    "catalog": frozenset({"model"}),
    "governance": frozenset({"model", "core"}),
    "ports": frozenset({"model"}),
    "background": frozenset({"model"}),
    "codec": frozenset({"model"}),
    "config": frozenset({"model", "core", "catalog", "accounting", "slurm_text"}),
    "gc_tuning": frozenset(),
    "page_templates": frozenset(),
    "slurm_text": frozenset({"model"}),
    "control": SHELL | {"background", "codec", "config", "gc_tuning"},
    "simulate": SHELL | {"codec", "gc_tuning", "page_templates", "slurm_text"},
    "plan": SHELL | {"simulate"},
    "engines": frozenset({"model", "ports", "background", "codec", "slurm_text"}),
    "store": frozenset({"model", "ports", "codec"}),
    "clouds": frozenset({"model", "ports"}),
    "notify": frozenset({"model", "ports", "background"}),
    "api": SHELL | {"config", "control"},
    "client": frozenset({"model", "api"}),
    "cli": frozenset({"model", "client", "wiring"}),
    "portal": frozenset({"model", "client", "page_templates"}),
    "sdk": frozenset(),
}
NOT_SHIPPED = frozenset({"benchmarks", "studies", "tests"})
"""Folders outside the package that build on it."""

MAY_IMPORT_ALL = frozenset({"wiring"})

# Folders whose members do not know each other: one engine, or one cloud, per folder.
STRANGERS = frozenset({"engines", "clouds"})

# Packages and modules directly in core/, each of which imports only those before it.
CORE_ROOMS: tuple[str, ...] = (
    *("quota", "topology", "deadline", "nodes", "journal", "placement", "state"),
    *("admission", "check", "fleet_change", "order_events"),
    *("draft", "ordering", "reservation", "hold_reasons", "preemption", "spot"),
    *("start_job", "cycle", "explain", "other_schedulers"),
)

PURE_MODULES = frozenset(
    {"__future__", "abc", "array", "bisect", "collections", "contextlib", "copy", "csv"}
    | {"dataclasses"}
    | {"decimal", "difflib", "enum", "fractions", "functools", "graphlib", "heapq", "itertools"}
    | {"math", "numbers", "operator", "re", "string", "textwrap", "types", "typing"}
)
# (file, package or built-in) -> the measurement that argues for it. A decisions page says more.
PURE_EXCEPTIONS: dict[tuple[str, str], str] = {
    (
        "src/bursar/core/deadline/policy_solver.py",
        "numpy",
    ): "a table in 0.08 s instead of 2.5 s (0017)",
}

IMPURE_BUILTINS = frozenset({"__import__", "breakpoint", "eval", "exec", "input", "open"})


def imports_follow_the_arrows(source: Source) -> list[Finding]:
    """Imports between the parts of Bursar point one way."""
    if not source.in_package:
        return []
    findings = []
    for line, module in imported_modules(source):
        if module.split(".")[0] in NOT_SHIPPED:
            rule = f"the package must not import {module}, which is not in the wheel"
            findings.append(source.finding(line, rule, "move what both need into the package"))
        if module.split(".")[0] != "bursar":
            continue
        problem = _against_the_arrows(source, module.split(".")[1:])
        if problem:
            findings.append(source.finding(line, *problem))
    return findings


def _against_the_arrows(source: Source, target: list[str]) -> tuple[str, str] | None:
    part, target_part = source.part, target[0] if target else ""
    if target_part == part:
        own = source.path.parts[3] if len(source.path.parts) > 4 else ""
        other = target[1] if len(target) > 1 else ""
        is_folder = (ROOT / "src" / "bursar" / part / other).is_dir()
        if part in STRANGERS and own and other and other != own and is_folder:
            return (
                f"{part}/{own} imports {part}/{other}; they must not know each other",
                f"move what both need to ports.py or model/, or to a module directly in {part}/",
            )
        return None
    if not target_part or target_part == "__version__" or part in MAY_IMPORT_ALL:
        return None
    if part not in ARROWS:
        return (
            f"the part '{part}' has no arrows yet",
            "add its row to ARROWS in tests/tidy/arrows.py and to ARCHITECTURE.md",
        )
    if target_part in ARROWS[part]:
        return None
    may = ", ".join(sorted(ARROWS.get(part, ()))) or "nothing of ours"
    return (
        f"{part or 'the package root'} must not import {target_part}; it may import {may}",
        "move the code to the part that may, or pass the value in as an argument",
    )


def core_rooms_import_one_way(source: Source) -> list[Finding]:
    """Each package of the core imports only those before it in CORE_ROOMS."""
    if source.part != "core":
        return []
    own = source.path.parts[3].removesuffix(".py")
    if own == "__init__":
        return []
    if own not in CORE_ROOMS:
        rule = f"core/{own} has no position in the import order of the core"
        return [source.finding(1, rule, "add it to CORE_ROOMS in tests/tidy/arrows.py")]
    allowed = CORE_ROOMS[: CORE_ROOMS.index(own) + 1]
    findings = []
    for line, module in imported_modules(source):
        names = module.split(".")
        if names[:2] != ["bursar", "core"] or len(names) < 3 or names[2] in allowed:
            continue
        rule = f"core/{own} must not import core/{names[2]}, which comes after it"
        fix = "move the code to the later package, or pass the value in as an argument"
        findings.append(source.finding(line, rule, fix))
    return findings


def pure_parts_stay_pure(source: Source) -> list[Finding]:
    """model, core, accounting and catalog know no clock, no chance, no I/O, no log."""
    if source.part not in PURE:
        return []
    findings = []
    for line, module in imported_modules(source):
        package = module.split(".")[0]
        if package == "bursar" or package in PURE_MODULES:
            continue
        if (source.path.as_posix(), package) in PURE_EXCEPTIONS:
            continue
        rule = f"{source.part} is pure and must not import {package}"
        findings.append(source.finding(line, rule, "take the value as an argument from the shell"))
    for node in source.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            excepted = (source.path.as_posix(), node.func.id) in PURE_EXCEPTIONS
            if node.func.id in IMPURE_BUILTINS and not excepted:
                rule = f"{source.part} is pure and must not call {node.func.id}()"
                findings.append(
                    source.finding(node.lineno, rule, "do it in a shell and pass the result in")
                )
    return findings


def imported_modules(source: Source) -> Iterator[tuple[int, str]]:
    """Each imported module with its line. ``from bursar import core`` counts as ``bursar.core``."""
    package = [*source.path.parts[1:-1]]
    for node in source.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            yield from _names_from(node, module)


def _names_from(node: ast.ImportFrom, module: str) -> Iterator[tuple[int, str]]:
    """A name taken from a folder may be a module of it; naming it whole catches both cases."""
    folder_of_parts = module in ("bursar", "bursar.core")
    folder_of_parts = folder_of_parts or module.removeprefix("bursar.") in STRANGERS
    if folder_of_parts and module.startswith("bursar"):
        for alias in node.names:
            yield node.lineno, f"{module}.{alias.name}"
    else:
        yield node.lineno, module
