"""Word that jobs leave for the control plane: keys of attempts about which there is something to read."""

from __future__ import annotations

import os
from pathlib import Path

MOST_BYTES = 1_000_000
"""Then a node's file begins anew. Word that comes at that moment is lost, and Slurm will be asked."""


class JobMessages:
    """A folder in which each node adds lines to a file of its own: no two machines write to the same one,
    and nothing is made or removed for a job."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._read: dict[str, int] = {}

    def take(self) -> list[str]:
        """What came since the last look, each key once, in order."""
        keys: dict[str, None] = {}
        with os.scandir(self.path) as files:
            for file in files:
                if "@" in file.name:
                    # So scripts of an earlier version leave word: by an empty file.
                    keys[file.name] = None
                    Path(file.path).unlink(missing_ok=True)
                elif file.stat().st_size != self._read.get(file.name, 0):
                    keys.update(dict.fromkeys(self._new_lines(file.name)))
        return sorted(keys)

    def _new_lines(self, name: str) -> list[str]:
        """Without one that is still being written."""
        path, begin = os.path.join(self.path, name), self._read.get(name, 0)
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size < begin:
                begin = 0
            file.seek(begin)
            text, newline, _ = file.read().rpartition(b"\n")
        end = begin + len(text) + len(newline)
        if end > MOST_BYTES:
            os.truncate(path, 0)
            end = 0
        self._read[name] = end
        return text.decode("utf-8", "replace").split("\n") if newline else []
