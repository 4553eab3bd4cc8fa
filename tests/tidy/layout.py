"""Rules for the pages next to the code, and for what no file may contain."""

from __future__ import annotations

import ast
import re

from tests.tidy.source import Finding, Source

README_FROM_MODULES = 3
MOST_MODULES = 15

MACHINE_PATH = re.compile(r"(?<![\w.~$}-])/(?:work|root|home)/")
MIRROR = re.compile(
    r"index[-_]url|find[-_]links|trusted[-_]host|file:/[/]"
    r"|https?://[^/\s\"']*(?:mirror|artifactory|nexus|devpi)",
    re.IGNORECASE,
)


def packages_introduce_themselves(source: Source) -> list[Finding]:
    """Each folder of the package says what it is for, in a docstring and, once it grows, a page."""
    if not source.has_readme_rules:
        return []
    folder = (source.root / source.path).parent
    modules = sorted(file.name for file in folder.glob("*.py"))
    findings = []
    if "__init__.py" not in modules:
        if source.path.name == modules[0]:
            rule = "the folder has no __init__.py"
            findings.append(source.finding(1, rule, "add one whose docstring says what it is for"))
    elif source.path.name == "__init__.py":
        if source.tree is None or not ast.get_docstring(source.tree):
            rule = "the package has no docstring"
            findings.append(source.finding(1, rule, "say in a sentence what the package is for"))
        if len(modules) > README_FROM_MODULES and not _has_readme(source):
            rule = f"a package of {len(modules) - 1} modules has no README.md"
            fix = "add one that opens with its words and its flow"
            findings.append(source.finding(1, rule, fix))
    return findings


def packages_are_small(source: Source) -> list[Finding]:
    """A folder holds at most fifteen modules: about what a reader keeps in mind."""
    if not source.has_readme_rules or source.path.name != "__init__.py":
        return []
    modules = _modules_in_folder_of(source)
    if len(modules) <= MOST_MODULES:
        return []
    rule = f"the folder has {len(modules)} modules, more than {MOST_MODULES}"
    return [source.finding(1, rule, "make two packages of it, or merge modules of one idea")]


def readmes_name_every_module(source: Source) -> list[Finding]:
    """A README that leaves a module out sends the reader looking."""
    if not source.has_readme_rules or source.path.name != "__init__.py":
        return []
    readme = (source.root / source.path).parent / "README.md"
    if not readme.exists():
        return []
    text = readme.read_text(encoding="utf-8")
    missing = [name for name in _modules_in_folder_of(source) if f"`{name}`" not in text]
    if not missing:
        return []
    rule = f"README.md does not name {', '.join(missing)}"
    return [source.finding(1, rule, "add one line for each to its table of modules")]


def _modules_in_folder_of(source: Source) -> list[str]:
    folder = (source.root / source.path).parent
    return sorted(file.stem for file in folder.glob("*.py") if file.name != "__init__.py")


def no_machine_paths(source: Source) -> list[Finding]:
    """The project works wherever it is put."""
    rule, fix = "a path of one machine", "use a path relative to the project, or an argument"
    return _lines_matching(source, MACHINE_PATH, rule, fix)


def no_package_mirrors(source: Source) -> list[Finding]:
    """Where packages come from is the business of the machine's own configuration."""
    rule, fix = "a package source is fixed", "leave it to pip's configuration on the machine"
    return _lines_matching(source, MIRROR, rule, fix)


def _has_readme(source: Source) -> bool:
    """The package root is introduced by the project's own README and ARCHITECTURE pages."""
    folder = (source.root / source.path).parent
    return folder.name == "bursar" or (folder / "README.md").exists()


def _lines_matching(source: Source, pattern: re.Pattern[str], rule: str, fix: str) -> list[Finding]:
    return [
        source.finding(number, f"{rule}: '{found.group()}'", fix)
        for number, line in enumerate(source.text.splitlines(), start=1)
        for found in [pattern.search(line)]
        if found
    ]
