"""Every engine passes the conformance suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.engine_harness import ENGINES, NEED_REAL_SOFTWARE, EngineHarness
from tests.conformance.engine_suite import EngineSuite, trail

__all__ = ["trail"]


class TestEveryEngine(EngineSuite):
    """Parametrised over the engines."""

    @pytest.fixture(
        params=[
            pytest.param(name, marks=NEED_REAL_SOFTWARE.get(name, ())) for name in sorted(ENGINES)
        ]
    )
    def harness(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EngineHarness]:
        with ENGINES[request.param](tmp_path) as harness:
            yield harness
