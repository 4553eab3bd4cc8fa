"""Published traces are outside the project; tests that need a missing one are skipped."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def published() -> Callable[[str], str]:
    """The path of a published file in the folder of traces; it may be a member of an archive."""
    folder = Path(os.environ.get("BURSAR_TRACES") or ROOT / ".." / "shared" / "traces")

    def find(name: str) -> str:
        file = folder / name.partition("::")[0]
        if not file.exists():
            pytest.skip(f"no {file}; set BURSAR_TRACES to the folder of the published traces")
        return str(folder / name)

    return find
