"""``python -m tests.support.slurm_lab start|stop|status``: what ``make slurm-lab`` runs."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from bursar.model.errors import EngineFault, UserError
from tests.support.slurm_lab.lab import Lab
from tests.support.slurm_lab.lab_spec import LabPlan


def default_folder() -> Path:
    """The folder of a user's lab, the same at every call."""
    return Path(tempfile.gettempdir()) / f"bursar-slurm-lab-{os.geteuid()}"


def main(words: list[str]) -> int:
    """Start, stop or show the lab of a folder."""
    parser = argparse.ArgumentParser(prog="slurm-lab", description="A real Slurm on this machine.")
    parser.add_argument("do", choices=("start", "stop", "status"))
    parser.add_argument("--folder", type=Path, default=default_folder())
    parsed = parser.parse_args(words)
    lab = Lab(parsed.folder, LabPlan(quick=True))
    try:
        return {"start": _start, "stop": _stop, "status": _status}[parsed.do](lab)
    except (UserError, EngineFault) as error:
        sys.stderr.write(f"slurm-lab: {error}\n")
        return 1


def _start(lab: Lab) -> int:
    processes = lab.status()
    if processes:
        return _start_again(lab, processes)
    began = time.monotonic()
    lab.start()
    took = time.monotonic() - began
    sys.stdout.write(f"slurm-lab: {len(lab.plan.nodes)} nodes idle after {took:.1f} s; ")
    _print_usage(lab)
    return 0


def _start_again(lab: Lab, processes: Mapping[str, int | None]) -> int:
    """A second start changes nothing; a lab with dead processes must be stopped first."""
    dead = [name for name, pid in processes.items() if pid is None]
    if dead:
        sys.stderr.write(
            f"slurm-lab: {len(dead)} of {len(processes)} processes of the lab in {lab.folder} are dead "
            f"({', '.join(dead)}); stop it with 'make slurm-lab DO=stop', then start it again\n"
        )
        return 1
    sys.stdout.write(f"slurm-lab: already running, {len(processes)} processes; ")
    _print_usage(lab)
    return 0


def _print_usage(lab: Lab) -> None:
    sys.stdout.write("use it with:\n\n")
    for name, value in sorted(lab.environment().items()):
        if name not in ("PATH", "LANG"):
            sys.stdout.write(f"  export {name}={value}\n")
    sys.stdout.write(f"\nslurmrestd listens on {lab.rest_socket}\n")


def _stop(lab: Lab) -> int:
    if not lab.folder.exists():
        sys.stdout.write(f"slurm-lab: no lab in {lab.folder}; nothing to stop\n")
        return 0
    lab.stop()
    sys.stdout.write(f"slurm-lab: stopped; {lab.folder} is removed\n")
    return 0


def _status(lab: Lab) -> int:
    processes = lab.status()
    if not processes:
        sys.stdout.write(f"slurm-lab: no lab in {lab.folder}; start one with 'make slurm-lab'\n")
        return 1
    for name, pid in processes.items():
        sys.stdout.write(f"{name:<24} {'dead' if pid is None else f'pid {pid}'}\n")
    if processes.get("slurmctld"):
        sys.stdout.write(lab.run("sinfo"))
    return 0 if all(processes.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
