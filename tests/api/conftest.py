from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api.scene import Scene, open_scene


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """One server for all tests of a module: each makes jobs of its own."""
    with open_scene(tmp_path_factory.mktemp("state")) as opened:
        yield opened
