"""Commands and environment of a job. The scheduling core never reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """Files that are unpacked at ``target`` in the working directory before the tasks start."""

    target: str
    bundle: str
    """SHA-256 of an uploaded archive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """The commands of a job, their environment and files.

    ``setup`` runs once per node before ``run``; both are scripts for ``shell``. ``argv`` replaces both
    if the command is a list of arguments. ``secrets`` are environment variables too, but are stored
    separately: they are never logged or shown, and are deleted when the job ends.
    """

    run: str = ""
    setup: str = ""
    argv: tuple[str, ...] = ()
    shell: str = "/bin/bash"
    envs: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    workdir: str | None = None
    """SHA-256 of an uploaded archive for the working directory; None for an empty directory."""
    mounts: tuple[Mount, ...] = ()
    grace_seconds: int = 30
    stop_signal: str = "SIGTERM"
