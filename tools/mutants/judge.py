"""Runs the tests that reach a mutant against it, in copies of the project."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from signal import SIGXCPU
from tempfile import TemporaryDirectory

from tools.mutants.probe import REACHED, marked
from tools.mutants.sample import Project
from tools.mutants.source import Mutant, Source

# A mutant may take so many times the seconds that its tests take without it.
SLOWER_TIMES = 5
# What a test, and what starting pytest, may take in any case.
LEAST_TEST_SECONDS = 2
LEAST_ALL_SECONDS = 60
# Processor seconds are what counts; this only ends what waits for something that never comes.
WALL_TIMES = 20

NO_TESTS = 5  # pytest's exit code when it finds none

# Not imported here: it changes the process in which it is imported.
PLUGIN = Path(__file__).with_name("pytest_probe.py")
NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist")


class Outcome(StrEnum):
    KILLED = "killed"
    TIMEOUT = "timeout"
    SURVIVED = "survived"
    NOT_COVERED = "not covered"


@dataclass(frozen=True, slots=True)
class Verdict:
    mutant: Mutant
    outcome: Outcome

    @property
    def is_killed(self) -> bool:
        return self.outcome in (Outcome.KILLED, Outcome.TIMEOUT)


@dataclass(frozen=True, slots=True)
class ObservedTest:
    """How a test did without any mutant, and which mutants it executes."""

    id: str
    seconds: float
    reached: frozenset[int]
    passed: bool
    slow: bool


class ProjectCopy:
    """A copy of the project, so that the checkout is never changed."""

    def __init__(self, project: Project, scratch: Path, name: str) -> None:
        self.root = scratch / name
        self._scratch = scratch
        self._plan = scratch / f"{name}.plan.json"
        self._plugin = scratch / "plugin"
        self._writes = 0
        shutil.copytree(project.root, self.root, ignore=NOT_COPIED)

    def write(self, path: str, content: bytes) -> None:
        """Replaces a file. No two versions share a time of change: Python caches bytecode by it."""
        self._writes += 1
        file = self.root / path
        before = file.stat().st_mtime
        file.write_bytes(content)
        os.utime(file, (before + self._writes, before + self._writes))

    def pytest(self, arguments: Sequence[str], wall_seconds: float | None, **more: str) -> int:
        """The exit code of pytest, or ``-SIGXCPU`` when it took too long."""
        options = [
            "-q",
            "--rootdir=.",
            "-m",
            "not real",
            "-p",
            "no:cacheprovider",
            "-p",
            PLUGIN.stem,
        ]
        environment = {
            **os.environ,
            "CI": "true",  # property tests then try the same examples every time
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # starts in a quarter of the time
            "PYTHONHASHSEED": "0",
            "PYTHONPATH": os.pathsep.join(map(str, (self._plugin, self.root / "src"))),
            **more,
        }
        try:
            return subprocess.run(
                [sys.executable, "-m", "pytest", *options, *arguments],
                cwd=self.root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=wall_seconds,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            return -SIGXCPU

    def observe(self, file: str, slowest_seconds: float) -> list[ObservedTest]:
        """Every test of a file, run in a process of its own so that others have cached nothing."""
        found = self._scratch / f"{file.replace('/', '.')}.json"
        more = {"MUTANT_REPORT": str(found), "MUTANT_SLOWEST_SECONDS": str(slowest_seconds)}
        code = self.pytest([file], None, **more)
        if code not in (0, 1, NO_TESTS) or not found.exists():  # it does not even load
            return [ObservedTest(file, 0, frozenset(), passed=False, slow=False)]
        return [
            ObservedTest(
                test, one["seconds"], frozenset(one["reached"]), one["passed"], one["slow"]
            )
            for test, one in json.loads(found.read_text()).items()
        ]

    def outcome_of(self, source: Source, mutant: Mutant, tests: Sequence[ObservedTest]) -> Outcome:
        """What becomes of a mutant under these tests, the quickest first."""
        quickest_first = sorted(tests, key=lambda test: (test.seconds, test.id))
        limits = {
            test.id: LEAST_TEST_SECONDS + SLOWER_TIMES * test.seconds for test in quickest_first
        }
        self._plan.write_text(json.dumps(limits))
        all_seconds = LEAST_ALL_SECONDS + SLOWER_TIMES * sum(test.seconds for test in tests)
        self.write(mutant.path, source.mutated(mutant))
        try:
            code = self.pytest(
                ["-x", *sorted({test.id.partition("::")[0] for test in tests})],
                WALL_TIMES * all_seconds,
                MUTANT_PLAN=str(self._plan),
                MUTANT_ALL_SECONDS=str(int(all_seconds)),
            )
        finally:
            self.write(mutant.path, source.content)
        if code == -SIGXCPU:
            return Outcome.TIMEOUT
        return Outcome.KILLED if code else Outcome.SURVIVED


def judge(
    project: Project,
    mutants: Sequence[Mutant],
    *,
    jobs: int,
    slowest_seconds: float,
    report: Callable[[str], None],
) -> Iterator[Verdict]:
    """A verdict on each mutant, as soon as it is known."""
    sources = {one.path: Source.read(project.root, one.path) for one in mutants}
    with TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(jobs) as executor:
        scratch = Path(folder)
        _write_plugin(scratch / "plugin")
        copies: SimpleQueue[ProjectCopy] = SimpleQueue()
        for number in range(jobs):
            copies.put(ProjectCopy(project, scratch, f"copy-{number}"))
        marked_copy = ProjectCopy(project, scratch, "marked")
        for path, source in sources.items():
            of_file = [(number, one) for number, one in enumerate(mutants) if one.path == path]
            marked_copy.write(path, marked(source, of_file))

        def observe(file: str) -> list[ObservedTest]:
            return marked_copy.observe(file, slowest_seconds)

        observed = list(chain.from_iterable(executor.map(observe, project.test_files())))
        tests = [test for test in observed if test.passed]
        _report_tests(observed, report)

        def verdict_on(number: int, mutant: Mutant) -> Verdict:
            reaching = [test for test in tests if number in test.reached]
            if not reaching:
                return Verdict(mutant, Outcome.NOT_COVERED)
            copy = copies.get()
            try:
                return Verdict(mutant, copy.outcome_of(sources[mutant.path], mutant, reaching))
            finally:
                copies.put(copy)

        pending = [executor.submit(verdict_on, *one) for one in enumerate(mutants)]
        try:
            for done in as_completed(pending):
                yield done.result()
        finally:
            executor.shutdown(cancel_futures=True)


def _write_plugin(folder: Path) -> None:
    folder.mkdir()
    shutil.copy(PLUGIN, folder)
    # Python reads this at its start, so that marks do no harm in processes that tests start.
    ignore = f"import builtins\nbuiltins.{REACHED} = lambda number: None\n"
    (folder / "sitecustomize.py").write_text(ignore)


def _report_tests(observed: Sequence[ObservedTest], report: Callable[[str], None]) -> None:
    passed = [test for test in observed if test.passed]
    seconds = sum(test.seconds for test in passed)
    report(f"{len(passed)} tests judge, {seconds:.0f} processor seconds in all")
    for test in observed:
        if not test.passed:
            report(f"left out: {test.id}: {'slow' if test.slow else 'fails without a mutant'}")
