from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api.harness import ApiHarness, open_harness


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiHarness]:
    """One server for all tests of a module."""
    with open_harness(tmp_path_factory.mktemp("state")) as api:
        yield api
