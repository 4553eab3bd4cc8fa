"""The rules of style, checked on every file, and each rule shown to be able to fail."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.children import clean_environment
from tests.tidy import arrows, habits, layout, shape, words
from tests.tidy.source import Finding, Source, project_sources

Rule = Callable[[Source], list[Finding]]

RULES: tuple[Rule, ...] = (
    habits.python_files_parse,
    arrows.imports_follow_the_arrows,
    arrows.core_rooms_import_one_way,
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
    habits.interrupted_children_accept_ctrl_c,
    habits.no_commented_out_code,
    layout.packages_introduce_themselves,
    layout.readmes_name_every_module,
    layout.packages_are_small,
    layout.no_machine_paths,
    layout.no_package_mirrors,
    words.words_are_plain,
)

CORE = "src/bursar/core/fit.py"
DRAFT = "src/bursar/core/draft.py"
TEST = "tests/core/test_fit.py"


# rule -> (path, text) of files it must report.
BAD: dict[Rule, list[tuple[str, str]]] = {
    habits.python_files_parse: [(CORE, "x = 1\ny = = 2\n")],
    arrows.imports_follow_the_arrows: [
        (CORE, "from bursar.catalog.gpus import MODELS"),
        (CORE, "from bursar import simulate"),
        ("src/bursar/wiring/spot.py", "from studies.formats import FORMATS"),
        (CORE, "import bursar.control.writer"),
        (CORE, "from ..simulate import world"),
        (CORE, "def late():\n    from bursar.ports import Clock"),
        ("src/bursar/model/jobs/job.py", "from bursar.core.fit import fits"),
        ("src/bursar/simulate/simulated_engines.py", "from bursar.plan import compare"),
        ("src/bursar/cli/main.py", "from bursar.simulate.simulated_engines import World"),
        (
            "src/bursar/engines/slurm/driven/engine.py",
            "from bursar.engines.local.engine import run",
        ),
        ("src/bursar/engines/slurm/driven/engine.py", "from bursar.engines import local"),
        ("src/bursar/__init__.py", "from bursar.core.cycle import decide"),
        ("src/bursar/brand_new/thing.py", "from bursar.model.jobs.job import Job"),
    ],
    arrows.core_rooms_import_one_way: [
        (DRAFT, "from bursar.core.preemption.evictable import Evictable"),
        (DRAFT, "from bursar.core import cycle"),
        ("src/bursar/core/state/fleet_state.py", "from ..draft import Draft"),
        ("src/bursar/core/brand_new/thing.py", "import re"),
    ],
    arrows.pure_parts_stay_pure: [
        (CORE, "import time"),
        (CORE, "from datetime import datetime"),
        (CORE, "import os.path"),
        (CORE, "import numpy as np"),
        ("src/bursar/model/jobs/job.py", "from random import choice"),
        ("src/bursar/catalog/gpus.py", "TABLE = open('gpus.json').read()"),
    ],
    habits.no_branch_on_simulating: [
        ("src/bursar/control/order_executor.py", "if simulating:\n    pass"),
        (
            "src/bursar/control/order_executor.py",
            "x = 1 if self._is_simulated else 2",
        ),
        (CORE, "if world.kind is Kind.SIMULATED and ready:\n    pass"),
    ],
    shape.functions_are_short: [(CORE, "def long():\n" + "    x = 1\n" * 60)],
    shape.files_are_short: [
        (CORE, "x = 1\n" * 501),
        ("benchmarks/__main__.py", "x = 1\n" * 501),
        ("studies/formats/philly.py", "x = 1\n" * 501),
        (TEST, "x = 1\n" * 601),
    ],
    shape.parameters_are_few: [
        (CORE, "def f(a, b, c, d, e, f): pass"),
        (CORE, "def f(a, b, c, *, d, e, f): pass"),
        (CORE, "class A:\n    def __init__(self, a, b, c, d, e, f): pass"),
        (CORE, "class A:\n    @staticmethod\n    def of(a, b, c, d, e, f): pass"),
        (CORE, "def f(a, b, c, d, *rest, **more): pass"),
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
        ("src/bursar/simulate/simulated_engines.py", "print('placed')"),
    ],
    habits.no_unfinished_marks: [
        (CORE, "x = 1  # TO" + "DO: two"),
        ("docs/page.md", "FIX" + "ME"),
        ("Makefile", "# X" + "XX"),
    ],
    habits.no_stubs: [(CORE, "def f():\n    raise NotImplementedError('soon')")],
    habits.no_async_outside_api: [("src/bursar/control/writer.py", "async def run(): pass")],
    habits.interrupted_children_accept_ctrl_c: [(TEST, "child.send_signal(signal.SIGINT)")],
    habits.no_commented_out_code: [
        (CORE, "# x = compute(y)"),
        (CORE, "# draft.apply(event)"),
        (CORE, "# from bursar.model.jobs.job import Job"),
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
    words.words_are_plain: [
        (CORE, "def h" + "eed_notice(): pass"),
        (CORE, '"""A user and hi' + 's jobs."""'),
        ("docs/page.md", "The War" + "den starts each attempt."),
        ("README.md", "j-1 is suc" + "ceeded."),
        (TEST, "def test_job_is_to" + "ld(): pass"),
    ],
}

# rule -> (path, text) of files it must leave alone.
GOOD: dict[Rule, list[tuple[str, str]]] = {
    habits.python_files_parse: [(CORE, ""), ("docs/page.md", "y = = 2")],
    arrows.imports_follow_the_arrows: [
        (
            CORE,
            "from bursar.model.jobs.job import Job\nfrom bursar.core.quota.quota_tree import Quota",
        ),
        ("src/bursar/wiring.py", "from bursar.cli.main import main"),
        (
            "src/bursar/engines/slurm/driven/engine.py",
            "from bursar.engines.slurm.driven.script import write",
        ),
        ("src/bursar/cli/main.py", "from bursar import __version__, wiring"),
        (TEST, "from bursar.cli.main import main"),
    ],
    arrows.core_rooms_import_one_way: [
        (DRAFT, "from bursar.core.state.fleet_state import FleetState"),
        ("src/bursar/core/state/timers.py", "from bursar.core.state.decay import decay"),
        ("src/bursar/simulate/simulation.py", "from bursar.core.cycle import decide"),
    ],
    arrows.pure_parts_stay_pure: [
        (CORE, "from collections.abc import Iterator\nfrom bursar.model.jobs.job import Job"),
        ("src/bursar/simulate/workload/trace.py", "import random"),
    ],
    habits.no_branch_on_simulating: [
        ("src/bursar/simulate/simulated_engines.py", "if simulation.done:\n    pass"),
        ("src/bursar/cli/main.py", "if command == 'simulate':\n    pass"),
    ],
    shape.functions_are_short: [(CORE, "def fits():\n" + "    x = 1\n" * 59)],
    shape.files_are_short: [(TEST, "x = 1\n" * 600), ("docs/page.md", "line\n" * 900)],
    shape.parameters_are_few: [
        (CORE, "class A:\n    def f(self, a, b, c, d, *, e): pass"),
        (CORE, "@dataclass\nclass A:\n" + "".join(f"    f{n}: int\n" for n in range(9))),
    ],
    shape.names_say_what_things_are: [
        ("src/bursar/store/sql_store.py", "class Metadata: pass"),
        ("src/bursar/core/based_on.py", "class Database: pass"),
    ],
    habits.no_swallowed_errors: [
        (CORE, "try:\n    f()\nexcept KeyError:\n    pass"),
        (CORE, "try:\n    f()\nexcept Exception as e:\n    raise BrokenInvariant() from e"),
        (CORE, "try:\n    f()\nexcept Exception as e:\n    log(e)\n    events.append(Failed(e))"),
    ],
    habits.no_print_in_the_package: [
        ("src/bursar/cli/main.py", "print('placed')"),
        ("benchmarks/__main__.py", "print('placed')"),
    ],
    habits.no_unfinished_marks: [("docs/page.md", "mktemp XX" + "XXXX")],
    habits.no_async_outside_api: [("src/bursar/api/server.py", "async def run(): pass")],
    habits.interrupted_children_accept_ctrl_c: [
        (TEST, "Popen(words, preexec_fn=with_ctrl_c).send_signal(signal.SIGINT)"),
        (CORE, "heard = signal.SIGINT"),
    ],
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
    words.words_are_plain: [
        (CORE, '"""The history of this job; she, the, here, whose."""'),
        ("CHANGELOG.md", "The war" + "den is now the supervisor."),
        ("tests/tidy/words.py", "hi" + "s job"),
    ],
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
    assert set(RULES) == set(BAD) | {
        layout.packages_introduce_themselves,
        layout.readmes_name_every_module,
        layout.packages_are_small,
    }


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


def test_a_package_names_each_of_at_most_fifteen_modules(tmp_path: Path) -> None:
    folder = tmp_path / "src" / "bursar" / "core"
    folder.mkdir(parents=True)
    names = [f"module_{number}" for number in range(16)]
    for name in ["__init__", *names]:
        (folder / f"{name}.py").touch()
    (folder / "README.md").write_text(
        " ".join(f"`{name}`" for name in names[:-1]), encoding="utf-8"
    )
    source = Source(tmp_path, Path("src/bursar/core/__init__.py"), "")
    [missing] = layout.readmes_name_every_module(source)
    assert "module_15" in missing.rule
    [many] = layout.packages_are_small(source)
    assert "16 modules" in many.rule
    (folder / "module_15.py").unlink()
    assert not layout.readmes_name_every_module(source) and not layout.packages_are_small(source)


IGNORED = ("/.state/", "cache/", "*.pack", "docs/built.md")


@pytest.mark.parametrize("in_git", [True, False])
def test_what_git_ignores_is_not_read(tmp_path: Path, in_git: bool) -> None:
    """What ``make run`` leaves in a checkout is no part of the project, and need not be text."""
    (tmp_path / ".gitignore").write_text("\n".join(["# left by a run", *IGNORED, ""]))
    ours = ["docs/page.md", "docs/.state/page.md", "src/cache.py", "docs/cache.md"]
    left = [".state/bundles/1f8b", "src/cache/a", "b.pack", "docs/b.pack/a", "docs/built.md"]
    for name in (*ours, *left):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(gzip.compress(b"x") if name in left else b"text")
    if in_git:
        if shutil.which("git") is None:
            pytest.skip("git is not installed")
        for words in (["init", "--quiet"], ["add", "docs/page.md"]):
            subprocess.run(["git", *words], cwd=tmp_path, env=clean_environment(), check=True)
    found = [source.path.as_posix() for source in project_sources(tmp_path)]
    assert found == [".gitignore", *sorted(ours)]
