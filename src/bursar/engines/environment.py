"""Checks the environment variables that a job sets.

The control plane's own environment is never passed on: it may hold secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

OURS = frozenset(
    {"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}
    | {"NODE_RANK", "CUDA_VISIBLE_DEVICES", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"}
    | {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "NVIDIA_VISIBLE_DEVICES", "TMPDIR"}
    | {"SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES", "SKYPILOT_NODE_IPS"}
    | {"SKYPILOT_NUM_GPUS_PER_NODE"}
)
"""Variables that the engine sets."""

INTERPRETED = frozenset({"BASH_ENV", "ENV", "PROMPT_COMMAND", "SHELLOPTS", "BASHOPTS", "PS4"})
INTERPRETED_PREFIXES = ("LD_", "BASH_FUNC_")
"""Variables that the loader or a shell interprets before the job's own command runs. A job that needs one
(``LD_LIBRARY_PATH``) exports it in its script, where it affects nothing else."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def name_problem(names: Iterable[str]) -> str:
    """Why these variables cannot be set, or ""."""
    for name in sorted(names):
        if name in OURS or name.startswith("BURSAR_"):
            return f"not started: the variable {name} is set by Bursar; remove it from envs"
        if name in INTERPRETED or name.startswith(INTERPRETED_PREFIXES):
            return f"not started: the variable {name} may not be in envs; export it in run"
        if not NAME.fullmatch(name):
            return f"not started: {name[:60]!r} is not a valid variable name; use letters, digits and _"
    return ""


def value_problem(values: Mapping[str, str]) -> str:
    """Why these values cannot be passed to a process, or ""."""
    for name, value in sorted(values.items()):
        if "\0" in value:
            return f"not started: the value of {name} contains a NUL character; remove it"
    return ""
