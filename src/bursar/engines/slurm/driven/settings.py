"""What an operator may choose about a Slurm cluster that Bursar drives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from bursar.engines.slurm.commands.commands import PLAIN_PATH, Commands
from bursar.model.engine_report import EngineReport
from bursar.ports import AttemptRef


class StatusReader(Protocol):
    """Reads what a job says of itself, while it says it."""

    def new_reports(self) -> Sequence[EngineReport]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """Where files are kept and how Slurm is reached.

    ``state`` must be visible under the same path on every node: scripts, output and marks are there.
    ``partition``, ``account`` and ``qos`` are used for every job; without a partition the first one that has
    all nodes of a job is, and without an account the one that is called like the job's queue.
    ``rest_socket`` is slurmrestd's; without it, and while it does not answer, jobs are submitted by sbatch.
    """

    state: Path
    nodes: tuple[str, ...] | None = None
    """Whose coming and going is reported; None: of all that Slurm has."""
    commands: Commands = field(default_factory=Commands)
    rest_socket: Path | None = None
    partition: str = ""
    account: str = ""
    qos: str = ""
    path: str = PLAIN_PATH
    told: Callable[[str, AttemptRef], StatusReader] | None = None
    """Makes the reader of an attempt's ``BURSAR_SAVED_FILE``."""
    poll_seconds: float = 2.0
    """How often Slurm is asked what became of the jobs. Ends that jobs report themselves come at once."""
    look_seconds: float = 0.05
    """How often the folder is looked at, in which jobs leave word."""
    node_poll_seconds: float = 4.0
    launch_seconds: float = 120.0
    """How long Slurm may say that a job runs before its script begins: prologs take their time. Then the
    launch counts as lost, as after a crash of slurmctld, and the job is replaced."""
    lost_after_seconds: float = 15.0
    """How long Slurm may know nothing of an attempt that had begun before it counts as lost."""
