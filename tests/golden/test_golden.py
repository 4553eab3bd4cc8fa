"""Decisions as text, stored with the tests.

``BURSAR_GOLDEN=write`` writes the files anew; the difference is then for a person to read.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.golden.scenes import SCENES, scene_text

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", sorted(SCENES))
def test_a_scene_is_decided_as_it_was(name: str) -> None:
    kept = HERE / f"{name}.txt"
    now = scene_text(SCENES[name])
    if os.environ.get("BURSAR_GOLDEN") == "write":
        kept.write_text(now)
    assert now == kept.read_text(), (
        f"read the difference; if it is meant, BURSAR_GOLDEN=write {name}"
    )
