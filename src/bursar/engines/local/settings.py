"""What an operator may choose about the local engine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bursar.engines.local.gpu_discovery import FoundGpu
from bursar.engines.local.order_to_plan import JobSurroundings
from bursar.model.units import GIB_MIB

PLAIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """Where it keeps its files and how tasks run.

    ``nodes`` are the declared ones, all on this machine. ``gpus`` gives those that are backed by real
    GPUs their devices in order of index; the others have virtual ones, which are only counted.
    ``cgroup`` is a delegated cgroup v2 folder whose ``cgroup.subtree_control`` lists ``cpu`` and
    ``memory``; without it memory is watched and CPU is not bounded.
    """

    state: Path
    nodes: tuple[str, ...] = ()
    gpus: Mapping[str, tuple[FoundGpu, ...]] = field(default_factory=dict)
    cgroup: Path | None = None
    log_file_mib: int = 64
    log_files: int = 5
    path: str = field(default_factory=lambda: os.environ.get("PATH", PLAIN_PATH))
    warden_linger_seconds: float = 30.0
    """How long a warden without control plane and without attempts stays."""

    def surroundings(self) -> JobSurroundings:
        """The part that reaches tasks."""
        return JobSurroundings(
            path=self.path,
            language=os.environ.get("LANG", "C.UTF-8"),
            log_bytes=min(self.log_file_mib, GIB_MIB) * MIB,
            log_files=max(1, self.log_files),
            cgroup=str(self.cgroup) if self.cgroup else "",
            gpus=self.gpus,
        )
