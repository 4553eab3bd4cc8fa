"""Decisions equal the text stored with the tests.

``BURSAR_GOLDEN=write`` rewrites the files; review the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.golden.scenes import SCENES, scene_text

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", sorted(SCENES))
def test_a_scene_gives_the_stored_decisions(name: str) -> None:
    stored = HERE / f"{name}.txt"
    now = scene_text(SCENES[name])
    if os.environ.get("BURSAR_GOLDEN") == "write":
        stored.write_text(now)
    assert now == stored.read_text(), (
        f"read the difference; if it is meant, BURSAR_GOLDEN=write {name}"
    )
