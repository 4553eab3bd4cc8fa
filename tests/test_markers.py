"""Markers that a quick run excludes are registered, excluded and listed after the run."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib

import pytest

from tests.children import clean_environment
from tests.tidy.source import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", "")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CONFIGURED = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MARKERS = [one.split(":")[0] for one in CONFIGURED["tool"]["pytest"]["ini_options"]["markers"]]

# what `make test-full` installs -> how the line after `make test` names it
PARTS = {
    "postgres": "PostgreSQL",
    "torch": "PyTorch",
    "frameworks": "Lightning, Hugging Face, TensorFlow",
    "slurm": "Slurm",
    "focus": "FOCUS validator",
    "compiler": "C compiler",
}


def recipe(target: str) -> str:
    """A target with its prerequisites, its help and its commands."""
    found = re.search(rf"^{target}: (?!export).*\n(?:\t.*\n)*", MAKEFILE, re.MULTILINE)
    assert found is not None, target
    return found.group()


@pytest.mark.parametrize("marker", MARKERS)
def test_a_marked_test_is_left_out_of_the_quick_run_and_of_no_other(marker: str) -> None:
    assert f"not {marker}" in recipe("test")
    assert f"not {marker}" not in recipe("test-full")
    assert f"`@pytest.mark.{marker}`" in CONTRIBUTING


def test_the_quick_run_ends_with_what_it_left_out() -> None:
    left_out = recipe("test").partition("left out: ")[2]
    assert not [part for part in [*MARKERS, *PARTS.values()] if part not in left_out]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_every_real_part_is_known_here() -> None:
    known = subprocess.run(
        ["make", "--dry-run", "--print-data-base", "real-parts"],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
    ).stdout
    (parts,) = re.findall(r"^real-parts: (.+)$", known, re.MULTILINE)
    assert parts.split() == [f"real-{part}" for part in PARTS]
