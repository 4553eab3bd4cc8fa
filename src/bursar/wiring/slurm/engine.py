"""Builds the driven Slurm engine, on the cluster that this machine's Slurm commands reach."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bursar.model.errors import EngineFault, UserError

if TYPE_CHECKING:
    from bursar.config import FleetFile
    from bursar.engines.slurm.driven.engine import SlurmEngine
    from bursar.engines.slurm.driven.pacing import SettingAdvice

REST_SOCKET = "BURSAR_SLURM_REST_SOCKET"
PARTITION, ACCOUNT, QOS = "BURSAR_SLURM_PARTITION", "BURSAR_SLURM_ACCOUNT", "BURSAR_SLURM_QOS"
FOLDER = "slurm"
TIMEOUT_SECONDS = 5.0
"""Timeout of the check at the start of the server."""


def is_needed(fleet: FleetFile, state: Path) -> bool:
    """Whether a Slurm cluster is declared, or the state folder has Slurm jobs of an earlier start."""
    from bursar.control.requests.fleet_requests import require_single_slurm_cluster
    from bursar.model.fleet.fleet import EngineKind

    require_single_slurm_cluster(fleet.fleet)
    declared = any(cluster.engine is EngineKind.SLURM for cluster in fleet.fleet.clusters)
    return declared or (state / FOLDER).is_dir()


def slurm_engine(state: Path) -> SlurmEngine:
    """The engine. ``SLURM_CONF`` selects the cluster; our own variables configure the rest."""
    from bursar.engines.slurm.commands.commands import from_environment
    from bursar.engines.slurm.driven.engine import SlurmEngine
    from bursar.engines.slurm.driven.settings import SlurmSettings

    missing = [
        name for name in ("scontrol", "squeue", "sbatch", "scancel") if not shutil.which(name)
    ]
    if missing:
        raise UserError(
            f"the fleet has a Slurm cluster, but {', '.join(missing)} is not on this machine's PATH.",
            fix="Install Slurm's client commands here, or start Bursar where they are.",
            code="no-slurm",
        )
    socket = os.environ.get(REST_SOCKET)
    return SlurmEngine(
        SlurmSettings(
            state=state,
            commands=from_environment(),
            rest_socket=Path(socket) if socket else None,
            partition=os.environ.get(PARTITION, ""),
            account=os.environ.get(ACCOUNT, ""),
            qos=os.environ.get(QOS, ""),
        )
    )


@dataclass(frozen=True, slots=True)
class SlurmStatus:
    """The Slurm that this machine's commands reach: its name and version, or why it is unreachable."""

    is_reachable: bool
    text: str
    advice: SettingAdvice | None = None


def check_slurm() -> SlurmStatus | None:
    """The status of Slurm; None if its commands are not installed."""
    from bursar.engines.slurm.commands.commands import from_environment
    from bursar.engines.slurm.driven.pacing import advice
    from bursar.engines.slurm.governed.present import read_config

    if not shutil.which("scontrol"):
        return None
    commands = replace(from_environment(), timeout_seconds=TIMEOUT_SECONDS)
    try:
        config = read_config(commands)
    except EngineFault as fault:
        return SlurmStatus(False, str(fault))
    text = f"cluster {config.get('ClusterName', '')}, Slurm {config.get('SLURM_VERSION', '')}"
    return SlurmStatus(True, text, advice(config))


def pacing_note() -> str:
    """Advice to the operator for faster starts, or "" if there is none or Slurm is unreachable."""
    status = check_slurm()
    if status is None or status.advice is None:
        return ""
    return f"{status.advice.problem} {status.advice.fix}"
