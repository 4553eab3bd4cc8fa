"""Every command in the README of a study runs, with few jobs."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.cli.commands import ROOT, bursar

STUDIES = ("mig-mix", "philly-week", "quota-change", "spot-heavy")
EXAMPLES = [ROOT / "examples" / name for name in STUDIES]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
FEW = ("--limit", "60")


def commands_of(page: str) -> list[list[str]]:
    blocks = "".join(BLOCK.findall(page)).replace("\\\n", " ")
    return [shlex.split(line)[1:] for line in blocks.splitlines() if line.startswith("bursar ")]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_its_commands_run(example: Path, tmp_path: Path) -> None:
    folder = tmp_path / example.name
    shutil.copytree(example, folder)
    commands = commands_of((example / "README.md").read_text(encoding="utf-8"))
    assert commands
    for words in commands:
        few = () if words[0] == "whatif" else FEW
        ran = bursar(*words, *few, cwd=folder)
        assert (ran.returncode, ran.stderr) == (0, ""), words
        assert re.search(r"^JCT mean +\S", ran.stdout, re.M)
