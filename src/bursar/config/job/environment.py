"""What a job may put into the environment of its tasks.

The environment is handed to the program that starts the tasks, before any command of the user runs. So
what a loader or a shell obeys at its start, what decides which GPUs are seen, and what the engine sets
itself is refused here. A user who needs one of these exports it in ``run``, where it reaches
nothing but his own commands.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from bursar.config.yaml.value_readers import InvalidValue, named, refuse_unwritable, shown
from bursar.core.admission.value_limits import LARGEST

MOST_VARIABLES = 500
MOST_VALUE = 1 << 15

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_OBEYED = frozenset(
    {"PATH", "ENV", "BASH_ENV", "IFS", "PS4", "SHELLOPTS", "BASHOPTS", "GLOBIGNORE", "GCONV_PATH"}
    | {"PROMPT_COMMAND", "CDPATH", "POSIXLY_CORRECT", "GLIBC_TUNABLES", "PYTHONSTARTUP"}
    | {"PYTHONHOME", "PYTHONINSPECT", "PERL5OPT", "RUBYOPT", "NODE_OPTIONS", "JAVA_TOOL_OPTIONS"}
)
_OF_GPUS = frozenset(
    {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"}
    | {
        "ROCR_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "NVIDIA_DRIVER_CAPABILITIES",
    }
)
_OF_GANGS = frozenset(
    {"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}
    | {"NODE_RANK", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE"}
)
_PREFIXES = {
    "LD_": "the loader obeys it",
    "DYLD_": "the loader obeys it",
    "BASH_FUNC_": "the shell would take it for a function",
    "BURSAR_": "names that begin so are ours",
    "SLURM_": "names that begin so are set by Slurm",
    "CUDA_MPS_": "it is set for the share of a GPU that the job gets",
}


def envs(value: Any) -> dict[str, str]:
    """Variables and their values, which may be shown to whoever may see the job."""
    return named(value, variable, _env_value, MOST_VARIABLES)


def secrets(value: Any) -> dict[str, str]:
    """Variables whose values no message repeats."""
    return named(value, variable, _secret_value, MOST_VARIABLES)


def variable(value: Any) -> str:
    """A variable's name that is one, and that is the user's to set."""
    if not isinstance(value, str) or not _KEY.match(value):
        clean = re.sub(r"\W+", "_", str(value)[:60], flags=re.ASCII).lstrip("0123456789")
        fix = f"Use letters, digits and '_', for example {clean or 'MY_NAME'!r}."
        problem = f"{shown(value)} is not a name of a variable"
        raise InvalidValue(problem, fix, "bad-variable", at_key=True)
    reason = _why_reserved(value)
    if reason:
        problem = f"the variable {value!r} cannot be set for a job: {reason}"
        raise InvalidValue(problem, _instead(value), "reserved-variable", at_key=True)
    return value


def _why_reserved(name: str) -> str:
    if name in _OBEYED:
        return "shells and interpreters obey it before the job's own commands run"
    if name in _OF_GPUS:
        return "it is set to the GPUs that the job gets"
    if name in _OF_GANGS:
        return "it is set for each task of the job"
    return next((why for prefix, why in _PREFIXES.items() if name.startswith(prefix)), "")


def _instead(name: str) -> str:
    if name in _OF_GPUS or name in _OF_GANGS or name.startswith(("BURSAR_", "CUDA_MPS_")):
        return "Leave it out; the tasks find it set."
    return f"Write 'export {name}=...' at the top of 'run'."


def _env_value(value: Any) -> str:
    if isinstance(value, str):
        return _checked(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal) or (isinstance(value, int) and abs(value) < LARGEST):
        return str(value)
    if value is None:
        raise _no_value("--env")
    raise InvalidValue(f"is {shown(value)}, not a text", "Write it in quotes.", "wrong-type")


def _secret_value(value: Any) -> str:
    if value is None or value == "":
        raise _no_value("--secret")
    if isinstance(value, dict | list | float):
        raise InvalidValue("is not a text", "Write it in quotes.", "wrong-type")
    return _env_value(value)


def _checked(value: str) -> str:
    if len(value) > MOST_VALUE:
        fix = "Put it into a file of 'workdir'."
        raise InvalidValue(f"has {len(value):,} characters", fix, "text-too-long")
    refuse_unwritable(value)
    return value


def _no_value(option: str) -> InvalidValue:
    fix = f"Write a value, or give it with '{option} NAME=VALUE' when you submit."
    return InvalidValue("has no value", fix, "missing-value")
