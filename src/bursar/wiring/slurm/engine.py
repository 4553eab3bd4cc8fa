"""The Slurm that ``bursar up`` drives: the one that this machine's own commands reach."""

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
PATIENCE_SECONDS = 5.0
"""A start does not wait longer for advice."""


def is_wanted(fleet: FleetFile, state: Path) -> bool:
    """Whether a cluster is declared as Slurm, or jobs of one are kept here from an earlier start."""
    from bursar.control.requests.fleet_requests import require_single_slurm_cluster
    from bursar.model.fleet.fleet import EngineKind

    require_single_slurm_cluster(fleet.fleet)
    declared = any(cluster.engine is EngineKind.SLURM for cluster in fleet.fleet.clusters)
    return declared or (state / FOLDER).is_dir()


def slurm_engine(state: Path) -> SlurmEngine:
    """``SLURM_CONF`` says which cluster, as for Slurm's own commands; the rest is in our variables."""
    from bursar.engines.slurm.commands.commands import from_environment
    from bursar.engines.slurm.driven.engine import SlurmEngine
    from bursar.engines.slurm.driven.settings import SlurmSettings
    from bursar.engines.status_file import StatusFile

    absent = [
        name for name in ("scontrol", "squeue", "sbatch", "scancel") if not shutil.which(name)
    ]
    if absent:
        raise UserError(
            f"a cluster runs on Slurm, and {', '.join(absent)} is not on this machine's PATH.",
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
            told=StatusFile,
        )
    )


@dataclass(frozen=True, slots=True)
class SlurmLook:
    """The Slurm that this machine's commands reach: what it is, or why it does not answer; and advice."""

    answers: bool
    told: str
    advice: SettingAdvice | None = None


def look_at_slurm() -> SlurmLook | None:
    """None where Slurm's commands are not installed."""
    from bursar.engines.slurm.commands.commands import from_environment
    from bursar.engines.slurm.driven.pacing import advice
    from bursar.engines.slurm.governed.present import read_config

    if not shutil.which("scontrol"):
        return None
    commands = replace(from_environment(), patience_seconds=PATIENCE_SECONDS)
    try:
        config = read_config(commands)
    except EngineFault as fault:
        return SlurmLook(False, str(fault))
    told = f"cluster {config.get('ClusterName', '')}, Slurm {config.get('SLURM_VERSION', '')}"
    return SlurmLook(True, told, advice(config))


def pacing_note() -> str:
    """What the operator of this Slurm should change for jobs to start soon; nothing if it does not answer."""
    look = look_at_slurm()
    if look is None or look.advice is None:
        return ""
    return f"{look.advice.found} {look.advice.fix}"
