"""A local engine in a folder of its own, with nothing left running afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.engine_harness import LocalHarness, local_harness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LocalHarness]:
    with local_harness(tmp_path) as harness:
        yield harness
