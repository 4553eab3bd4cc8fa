"""What runs inside pytest: notes who reaches which mutant, or runs a list of tests in its order.

It is copied next to the copies of the project and imports nothing of this package. Files named by the
environment tell it what to do; times are processor seconds, so that a busy machine changes nothing.
"""

from __future__ import annotations

import builtins
import functools
import gc
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

MEMORY_BYTES = 6 << 30  # a mutant may build lists without end

# For a run with marks: where to write, and how long a test may take to be used at all.
REPORT = os.environ.get("MUTANT_REPORT")
SLOWEST_SECONDS = float(os.environ.get("MUTANT_SLOWEST_SECONDS", "0"))
# For a run against a mutant: the tests in order, each with the seconds it may take.
PLAN: dict[str, float] = (
    json.loads(Path(os.environ["MUTANT_PLAN"]).read_text()) if "MUTANT_PLAN" in os.environ else {}
)

reached: set[int] = set()
tests: dict[str, dict[str, Any]] = {}
of_all: set[int] = set()
caches: list[Any] = []


class SlowTest(BaseException):
    """Raised inside a test that takes too long."""


def _stop(*_: object) -> None:
    """Ends the run, as the kernel does when all tests together take too long."""
    if PLAN:
        os.kill(os.getpid(), signal.SIGXCPU)
    raise SlowTest


builtins._mutant_reached = reached.add  # type: ignore[attr-defined]
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
if "MUTANT_ALL_SECONDS" in os.environ:
    all_seconds = int(os.environ["MUTANT_ALL_SECONDS"])
    resource.setrlimit(resource.RLIMIT_CPU, (all_seconds, all_seconds + 5))
signal.signal(signal.SIGVTALRM, _stop)


def pytest_configure() -> None:
    """A failing property need not be shrunk to a small example."""
    if "hypothesis" in sys.modules:
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", settings(), phases=phases, database=None)
        settings.load_profile("mutants")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if PLAN:
        order = {test: index for index, test in enumerate(PLAN)}
        items[:] = sorted(
            (item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid]
        )


def pytest_collection_finish() -> None:
    """What one test leaves in a cache would hide from us what the next one needs."""
    if REPORT:
        ours = os.path.join(os.getcwd(), "src", "")
        caches.extend(
            one
            for one in gc.get_objects()
            if isinstance(one, functools._lru_cache_wrapper)
            and (getattr(sys.modules.get(one.__module__), "__file__", None) or "").startswith(ours)
        )
        of_all.update(reached)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Iterator[Any]:
    """A shared fixture is set up during one test, yet every test of the file may need it."""
    before = set(reached)
    result = yield
    if fixturedef.scope != "function":
        of_all.update(reached - before)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    reached.clear()
    for cache in caches:
        cache.cache_clear()
    tests[item.nodeid] = {"passed": True, "slow": False}
    start = time.process_time()
    result = yield
    tests[item.nodeid] |= {"seconds": time.process_time() - start, "reached": sorted(reached)}
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    signal.setitimer(signal.ITIMER_VIRTUAL, PLAN.get(item.nodeid, SLOWEST_SECONDS))
    try:
        return (yield)
    except SlowTest:
        # Passed on, it would break pytest: a place where a signal arrives may have no line number.
        tests[item.nodeid] |= {"passed": False, "slow": True}
        raise pytest.skip.Exception("slow") from None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.outcome == "failed":
        tests[report.nodeid]["passed"] = False


def pytest_sessionfinish() -> None:
    if REPORT:
        for test in tests.values():
            test["reached"] = sorted(of_all.union(test["reached"]))
        Path(REPORT).write_text(json.dumps(tests))
