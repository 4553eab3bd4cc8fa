"""Every engine we have passes the one suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.engine_stands import ENGINES, Stand
from tests.conformance.engine_suite import EngineSuite, trail

__all__ = ["trail"]


class TestEveryEngine(EngineSuite):
    """Parametrised over the stands."""

    @pytest.fixture(params=sorted(ENGINES))
    def stand(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stand]:
        with ENGINES[request.param](tmp_path) as stand:
            yield stand
