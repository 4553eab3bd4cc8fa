"""Writers and readers of small checkpoints, shared by the tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bursar.sdk.checkpointing import Checkpoint

ROOT = Path(__file__).parents[2]


def content(step: int) -> dict[str, bytes]:
    """Two files, one of them in a folder, that contain their step."""
    return {"model.bin": f"weights of step {step} ".encode() * 40, "more/order.txt": b"%d" % step}


def writer(step: int) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for name, text in content(step).items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(text)

    return write


def is_exact(found: Checkpoint) -> bool:
    """Whether every byte is what was saved for its step."""
    return all(
        (found.path / name).read_bytes() == text for name, text in content(found.step).items()
    )


def reports(path: Path) -> list[dict[str, int]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def environment(**more: str) -> dict[str, str]:
    """The environment of a job: our package, and nothing else of the test's environment."""
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src"), **more}


def python(code: str, **env: str) -> subprocess.Popen[str]:
    """A job, with its output to be read line by line."""
    return subprocess.Popen(
        [sys.executable, "-u", "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**env),
    )
