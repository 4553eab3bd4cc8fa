"""Every engine we have passes the one suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.engine_stands import ENGINES, NEED_A_REAL_PART, Stand
from tests.conformance.engine_suite import EngineSuite, trail

__all__ = ["trail"]


class TestEveryEngine(EngineSuite):
    """Parametrised over the stands."""

    @pytest.fixture(
        params=[
            pytest.param(name, marks=NEED_A_REAL_PART.get(name, ())) for name in sorted(ENGINES)
        ]
    )
    def stand(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stand]:
        with ENGINES[request.param](tmp_path) as stand:
            yield stand
