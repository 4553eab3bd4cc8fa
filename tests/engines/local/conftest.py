"""A local engine in a folder of its own, with nothing left running afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.engine_stands import LocalStand, local_stand


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[LocalStand]:
    with local_stand(tmp_path) as stand:
        yield stand
