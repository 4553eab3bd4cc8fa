"""What stands beside the code, and what must never stand in it."""

from __future__ import annotations

import ast
import re

from tests.tidy.source import Finding, Source

README_FROM_MODULES = 3

MACHINE_PATH = re.compile(r"(?<![\w.~$}-])/(?:work|root|home)/")
MIRROR = re.compile(
    r"index[-_]url|find[-_]links|trusted[-_]host|file:/[/]"
    r"|https?://[^/\s\"']*(?:mirror|artifactory|nexus|devpi)",
    re.IGNORECASE,
)


def packages_introduce_themselves(source: Source) -> list[Finding]:
    """Each folder of the package says what it is for, in a docstring and, once it grows, a page."""
    if not source.in_package:
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
