"""Settings of the driven Slurm engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from bursar.engines.slurm.commands.commands import PLAIN_PATH, Commands


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """Where files are stored and how Slurm is reached.

    ``state`` must be visible under the same path on every node: it holds scripts, output and claims.
    ``partition``, ``account`` and ``qos`` apply to every job. The default partition is the first one with all
    nodes of a job, the default account the one named like the job's queue.
    ``rest_socket`` is slurmrestd's; without it, and while it does not respond, jobs are submitted by sbatch.
    """

    state: Path
    nodes: tuple[str, ...] | None = None
    """Nodes whose loss and return are reported; None for all nodes of Slurm."""
    commands: Commands = field(default_factory=Commands)
    rest_socket: Path | None = None
    partition: str = ""
    account: str = ""
    qos: str = ""
    path: str = PLAIN_PATH
    poll_seconds: float = 2.0
    """How often Slurm is polled. Ends that scripts record are reported at once."""
    folder_poll_seconds: float = 0.05
    """How often the messages of jobs are read."""
    node_poll_seconds: float = 4.0
    launch_seconds: float = 120.0
    """How long Slurm may report a job as running before its script starts (prologs are slow). Then the
    launch is considered lost, as after a crash of slurmctld, and the job is replaced."""
    lost_after_seconds: float = 15.0
    """How long Slurm may not know a started attempt before it is reported lost."""
