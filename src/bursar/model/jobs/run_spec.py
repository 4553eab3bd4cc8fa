"""What the tasks of a job do. The core never reads it: it decides where and when, not what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """Files that are laid at ``target`` in the working directory before the tasks start."""

    target: str
    bundle: str
    """The SHA-256 of an uploaded archive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """The commands of a job and what they find around them.

    ``setup`` runs once per node before ``run``; both are scripts for ``shell``. ``argv`` replaces both
    when the command is given as words. ``secrets`` are environment variables too, but are kept apart:
    they are never logged, never shown, and forgotten when the job is over.
    """

    run: str = ""
    setup: str = ""
    argv: tuple[str, ...] = ()
    shell: str = "/bin/bash"
    envs: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    workdir: str | None = None
    """The SHA-256 of an uploaded archive that becomes the working directory, or none for an empty one."""
    mounts: tuple[Mount, ...] = ()
    grace_seconds: int = 30
    stop_signal: str = "SIGTERM"
