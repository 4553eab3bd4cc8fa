"""The SDK works when it is copied alone into an image with an interpreter."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sdk.writing import ROOT

SDK = ROOT / "src" / "bursar" / "sdk"
FILES = sorted(SDK.rglob("*.py"))
HEAVY = (
    "logging",
    "shutil",
    "tempfile",
    "subprocess",
    "argparse",
    "dataclasses",
    "asyncio",
    "inspect",
)
HEAVY += ("torch", "fsspec", "numpy", "importlib.metadata", "urllib.request", "socket")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(SDK).as_posix())
def test_only_the_standard_library_and_itself(file: Path) -> None:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    ours = {name for name in names if name.split(".")[0] == "bursar"}
    assert all(name.startswith("bursar.sdk") for name in ours)
    assert {name.split(".")[0] for name in names - ours} <= set(sys.stdlib_module_names)


def alone(tmp_path: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Isolated: neither the project nor its packages can be imported."""
    shutil.copytree(SDK, tmp_path / "image" / "bursar" / "sdk", dirs_exist_ok=True)
    command = [sys.executable, "-I", "-S", "-W", "error", "-c"]
    start = f"import sys; sys.path.insert(0, {str(tmp_path / 'image')!r})\n"
    return subprocess.run(
        [*command, start + code], capture_output=True, text=True, cwd=tmp_path, check=False
    )


def test_it_works_when_copied_alone(tmp_path: Path) -> None:
    ran = alone(
        tmp_path,
        "from bursar.sdk import checkpointing\n"
        "with checkpointing('c') as run:\n"
        "    run.save(4, lambda folder: (folder / 'w').write_text('x'))\n"
        "    print(run.resume().step)\n",
    )
    assert (ran.stdout, ran.stderr) == ("4\n", "")


def test_importing_it_loads_nothing_heavy(tmp_path: Path) -> None:
    """Benchmarks measure the time of the import; what it loads decides it."""
    ran = alone(
        tmp_path, f"import bursar.sdk\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    )
    assert (ran.stdout, ran.stderr) == ("[]\n", "")
