"""Settings of the local engine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bursar.engines.local.gpu_discovery import DetectedGpu
from bursar.model.units import GIB_MIB

PLAIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """Where files are stored and how tasks run.

    ``nodes`` are the declared nodes, all on this machine. ``gpus`` lists the real GPUs of a node in order
    of index; other nodes have virtual GPUs, which are only counted.
    ``cgroup`` is a delegated cgroup v2 folder whose ``cgroup.subtree_control`` lists ``cpu`` and
    ``memory``; without it memory is polled and CPU is not limited.
    """

    state: Path
    nodes: tuple[str, ...] = ()
    gpus: Mapping[str, tuple[DetectedGpu, ...]] = field(default_factory=dict)
    cgroup: Path | None = None
    log_file_mib: int = 64
    log_files: int = 5
    path: str = field(default_factory=lambda: os.environ.get("PATH", PLAIN_PATH))
    language: str = field(default_factory=lambda: os.environ.get("LANG", "C.UTF-8"))
    supervisor_linger_seconds: float = 30.0
    """How long a supervisor without control plane and without attempts keeps running."""

    @property
    def log_bytes(self) -> int:
        return min(self.log_file_mib, GIB_MIB) * MIB
