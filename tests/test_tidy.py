"""The rules of style, checked on every file, and each rule shown to be able to fail."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.tidy import arrows, habits, layout, shape
from tests.tidy.source import Finding, Source, project_sources

Rule = Callable[[Source], list[Finding]]

RULES: tuple[Rule, ...] = (
    habits.python_files_parse,
    arrows.imports_follow_the_arrows,
    arrows.pure_parts_stay_pure,
    habits.no_branch_on_simulating,
    shape.functions_are_short,
    shape.files_are_short,
    shape.parameters_are_few,
    shape.names_say_what_things_are,
    habits.no_swallowed_errors,
    habits.no_print_in_the_package,
    habits.no_unfinished_marks,
    habits.no_stubs,
    habits.no_async_outside_api,
    habits.no_commented_out_code,
    layout.packages_introduce_themselves,
    layout.no_machine_paths,
    layout.no_package_mirrors,
)

CORE = "src/bursar/core/fit.py"
TEST = "tests/core/test_fit.py"


def _written_out(keywords: str) -> str:
    """A dataclass with the fields a to f whose own ``__init__`` takes these."""
    fields = "".join(f"    {name}: int\n" for name in "abcdef")
    return f"@dataclass(init=False)\nclass A:\n{fields}    def __init__(self, *, {keywords}): pass"


# rule -> (path, text) of files it must report.
BAD: dict[Rule, list[tuple[str, str]]] = {
    habits.python_files_parse: [(CORE, "x = 1\ny = = 2\n")],
    arrows.imports_follow_the_arrows: [
        (CORE, "from bursar.catalog.gpus import MODELS"),
        (CORE, "from bursar import simulate"),
        (CORE, "import bursar.control.loop"),
        (CORE, "from ..simulate import world"),
        (CORE, "def late():\n    from bursar.ports import Clock"),
        ("src/bursar/model/job.py", "from bursar.core.fit import fits"),
        ("src/bursar/simulate/world.py", "from bursar.plan import compare"),
        ("src/bursar/cli/main.py", "from bursar.simulate.world import World"),
        ("src/bursar/testing/fleets.py", "from bursar.wiring import build"),
        ("src/bursar/engines/slurm/engine.py", "from bursar.engines.local.engine import run"),
        ("src/bursar/engines/slurm/engine.py", "from bursar.engines import local"),
        ("src/bursar/__init__.py", "from bursar.core.cycle import decide"),
        ("src/bursar/brand_new/thing.py", "from bursar.model.job import Job"),
    ],
    arrows.pure_parts_stay_pure: [
        (CORE, "import time"),
        (CORE, "from datetime import datetime"),
        (CORE, "import os.path"),
        (CORE, "import numpy as np"),
        ("src/bursar/model/job.py", "from random import choice"),
        ("src/bursar/catalog/gpus.py", "TABLE = open('gpus.json').read()"),
    ],
    habits.no_branch_on_simulating: [
        ("src/bursar/control/act.py", "if simulating:\n    pass"),
        ("src/bursar/control/act.py", "x = 1 if self._is_simulated else 2"),
        (CORE, "if world.kind is Kind.SIMULATED and ready:\n    pass"),
    ],
    shape.functions_are_short: [(CORE, "def long():\n" + "    x = 1\n" * 60)],
    shape.files_are_short: [
        (CORE, "x = 1\n" * 501),
        ("benchmarks/__main__.py", "x = 1\n" * 501),
        (TEST, "x = 1\n" * 601),
    ],
    shape.parameters_are_few: [
        (CORE, "def f(a, b, c, d, e, f): pass"),
        (CORE, "def f(a, b, c, *, d, e, f): pass"),
        (CORE, "class A:\n    def __init__(self, a, b, c, d, e, f): pass"),
        (CORE, "class A:\n    @staticmethod\n    def of(a, b, c, d, e, f): pass"),
        (CORE, "def f(a, b, c, d, *rest, **more): pass"),
        (CORE, _written_out("a, b, c, d, e, g")),
        (CORE, _written_out("a, b, c, d, e, f, g")),
        (CORE, _written_out("a, b, c, d, e, f").replace("init=False", "frozen=True")),
    ],
    shape.names_say_what_things_are: [
        ("src/bursar/core/job_utils.py", ""),
        ("src/bursar/helpers/job.py", ""),
        (CORE, "class JobManager: pass"),
        (CORE, "class HTTPServices: pass"),
        (CORE, "def f():\n    class data_row: pass"),
    ],
    habits.no_swallowed_errors: [
        (TEST, "try:\n    f()\nexcept Exception:\n    pass"),
        (CORE, "try:\n    f()\nexcept:\n    ..."),
        (CORE, "try:\n    f()\nexcept (OSError, BaseException) as e:\n    self._log.warning(e)"),
        (CORE, "for x in y:\n    try:\n        f()\n    except Exception:\n        continue"),
    ],
    habits.no_print_in_the_package: [
        (CORE, "print('placed')"),
        ("src/bursar/simulate/world.py", "print('placed')"),
    ],
    habits.no_unfinished_marks: [
        (CORE, "x = 1  # TO" + "DO: two"),
        ("docs/page.md", "FIX" + "ME"),
        ("Makefile", "# X" + "XX"),
    ],
    habits.no_stubs: [(CORE, "def f():\n    raise NotImplementedError('soon')")],
    habits.no_async_outside_api: [("src/bursar/control/loop.py", "async def run(): pass")],
    habits.no_commented_out_code: [
        (CORE, "# x = compute(y)"),
        (CORE, "# draft.apply(event)"),
        (CORE, "# from bursar.model.job import Job"),
        (CORE, "# for node in fleet.nodes:"),
        (CORE, "if a:\n    # return best.node\n    pass"),
        (TEST, "# print(decisions)"),
    ],
    layout.no_machine_paths: [
        (CORE, "PLACE = '/home" + "/someone/traces'"),
        ("docs/page.md", "see /work" + "/shared"),
    ],
    layout.no_package_mirrors: [
        ("Makefile", "pip install --index" + "-url https://example.org/simple x"),
        ("docs/page.md", "https://pypi-mir" + "ror.example.org/simple"),
    ],
}

# rule -> (path, text) of files it must leave alone.
GOOD: dict[Rule, list[tuple[str, str]]] = {
    habits.python_files_parse: [(CORE, ""), ("docs/page.md", "y = = 2")],
    arrows.imports_follow_the_arrows: [
        (CORE, "from bursar.model.job import Job\nfrom bursar.core.quota import Quota"),
        ("src/bursar/wiring.py", "from bursar.cli.main import main"),
        ("src/bursar/testing/fleets.py", "from bursar.simulate.world import World"),
        ("src/bursar/engines/slurm/engine.py", "from bursar.engines.slurm.script import write"),
        ("src/bursar/cli/main.py", "from bursar import __version__, wiring"),
        (TEST, "from bursar.cli.main import main"),
    ],
    arrows.pure_parts_stay_pure: [
        (CORE, "from collections.abc import Iterator\nfrom bursar.model.job import Job"),
        ("src/bursar/simulate/trace.py", "import random"),
    ],
    habits.no_branch_on_simulating: [
        ("src/bursar/simulate/world.py", "if simulation.done:\n    pass"),
        ("src/bursar/cli/main.py", "if command == 'simulate':\n    pass"),
    ],
    shape.functions_are_short: [(CORE, "def fits():\n" + "    x = 1\n" * 59)],
    shape.files_are_short: [(TEST, "x = 1\n" * 600), ("docs/page.md", "line\n" * 900)],
    shape.parameters_are_few: [
        (CORE, "class A:\n    def f(self, a, b, c, d, *, e): pass"),
        (CORE, "@dataclass\nclass A:\n" + "".join(f"    f{n}: int\n" for n in range(9))),
        (CORE, _written_out("a, b, c, d, e, f")),
    ],
    shape.names_say_what_things_are: [
        ("src/bursar/store/database.py", "class Metadata: pass"),
        ("src/bursar/core/based_on.py", "class Database: pass"),
    ],
    habits.no_swallowed_errors: [
        (CORE, "try:\n    f()\nexcept KeyError:\n    pass"),
        (CORE, "try:\n    f()\nexcept Exception as e:\n    raise BrokenInvariant() from e"),
        (CORE, "try:\n    f()\nexcept Exception as e:\n    log(e)\n    events.append(Failed(e))"),
    ],
    habits.no_print_in_the_package: [
        ("src/bursar/cli/main.py", "print('placed')"),
        ("src/bursar/simulate/report.py", "print('placed')"),
        ("benchmarks/__main__.py", "print('placed')"),
    ],
    habits.no_unfinished_marks: [("docs/page.md", "mktemp XX" + "XXXX")],
    habits.no_async_outside_api: [("src/bursar/api/server.py", "async def run(): pass")],
    habits.no_commented_out_code: [
        (CORE, "# O(changed)"),
        (CORE, "# available == nominal - used"),
        (CORE, "# note: order matters"),
        (CORE, "# if idle:"),
        (CORE, "# return early"),
        (CORE, "# a, b and c"),
        (CORE, "# noqa: E501\n#!/bin/sh\n# type: ignore[x]"),
        (CORE, "x = 1  # y = 2 holds here too"),
        (CORE, '"""\n# x = compute(y)\n"""'),
    ],
    layout.no_machine_paths: [("docs/page.md", "docs/work/x, ../home/y, ~/work/z, $X/root/a")],
    layout.no_package_mirrors: [("docs/page.md", "https://pypi.org/project/ruff")],
}


@cache
def the_project() -> tuple[Source, ...]:
    return project_sources()


def _examples(table: dict[Rule, list[tuple[str, str]]]) -> list[object]:
    return [
        pytest.param(rule, path, text, id=f"{rule.__name__}-{number}")
        for rule, examples in table.items()
        for number, (path, text) in enumerate(examples)
    ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_project_keeps(rule: Rule) -> None:
    findings = [str(finding) for source in the_project() for finding in rule(source)]
    if findings:
        pytest.fail("\n".join([f"{rule.__doc__}", *findings]), pytrace=False)


@pytest.mark.parametrize(("rule", "path", "text"), _examples(BAD))
def test_a_bad_example_is_reported(rule: Rule, path: str, text: str) -> None:
    findings = rule(Source(Path(), Path(path), text))
    assert findings
    assert str(findings[0]).startswith(f"{path}:{findings[0].line}: ")
    assert ". Fix: " in str(findings[0])


@pytest.mark.parametrize(("rule", "path", "text"), _examples(GOOD))
def test_a_good_example_is_left_alone(rule: Rule, path: str, text: str) -> None:
    assert rule(Source(Path(), Path(path), text)) == []


def test_every_rule_is_shown_to_fail() -> None:
    assert set(RULES) == set(BAD) | {layout.packages_introduce_themselves}


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"one.py": ""}, "no __init__.py"),
        ({"__init__.py": "", "one.py": ""}, "no docstring"),
        ({"__init__.py": '"""Why."""', "a.py": "", "b.py": "", "c.py": ""}, "no README.md"),
        ({"__init__.py": '"""Why."""', "a.py": "", "b.py": ""}, None),
        ({"__init__.py": '"""Why."""', "a.py": "", "b.py": "", "c.py": "", "README.md": ""}, None),
    ],
)
def test_a_package_that_does_not_introduce_itself_is_reported(
    tmp_path: Path, files: dict[str, str], complaint: str | None
) -> None:
    folder = tmp_path / "src" / "bursar" / "core"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    findings = [
        finding.rule
        for source in project_sources(tmp_path)
        for finding in layout.packages_introduce_themselves(source)
    ]
    assert len(findings) == (1 if complaint else 0)
    assert not complaint or complaint in findings[0]


def test_the_project_is_seen() -> None:
    """An empty list of files would keep every rule."""
    paths = {source.path.as_posix() for source in the_project()}
    assert {"Makefile", ".ci/run", "README.md", "src/bursar/__init__.py"} <= paths
