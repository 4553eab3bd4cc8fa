"""The environment variables that a job may set for its tasks.

The environment is passed to the program that starts the tasks, before any command of the user runs.
So variables that a loader or shell obeys at start, that select the visible GPUs, or that the engine
sets are rejected. A user who needs one exports it in ``run``, where it affects only that job's commands.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from bursar.config.yaml.value_readers import InvalidValue, named, reject_unwritable, shown
from bursar.core.admission.value_limits import LARGEST

MOST_VARIABLES = 500
MOST_VALUE = 1 << 15

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_REMOVE = "Remove it; it is set for the tasks."
_EXPORT = "Write 'export {name}=...' at the top of 'run'."
_RESERVED = {
    name: (reason, fix)
    for names, reason, fix in (
        (
            "PATH ENV BASH_ENV IFS PS4 SHELLOPTS BASHOPTS GLOBIGNORE GCONV_PATH PROMPT_COMMAND CDPATH "
            "POSIXLY_CORRECT GLIBC_TUNABLES PYTHONSTARTUP PYTHONHOME PYTHONINSPECT PERL5OPT RUBYOPT "
            "NODE_OPTIONS JAVA_TOOL_OPTIONS",
            "shells and interpreters obey it before the job's own commands run",
            _EXPORT,
        ),
        (
            "CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL ROCR_VISIBLE_DEVICES "
            "HIP_VISIBLE_DEVICES CUDA_DEVICE_ORDER NVIDIA_DRIVER_CAPABILITIES",
            "it is set to the GPUs that the job gets",
            _REMOVE,
        ),
        (
            "MASTER_ADDR MASTER_PORT RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK "
            "GROUP_WORLD_SIZE ROLE_RANK ROLE_WORLD_SIZE",
            "it is set for each task of the job",
            _REMOVE,
        ),
    )
    for name in names.split()
}
"""Why a variable cannot be set, and what to do instead."""
_RESERVED_PREFIXES = {
    "LD_": ("the loader obeys it", _EXPORT),
    "DYLD_": ("the loader obeys it", _EXPORT),
    "BASH_FUNC_": ("the shell reads it as a function", _EXPORT),
    "BURSAR_": ("names with this prefix are reserved for Bursar", _REMOVE),
    "SLURM_": ("names with this prefix are set by Slurm", _EXPORT),
    "CUDA_MPS_": ("it is set for the share of a GPU that the job gets", _REMOVE),
}


def envs(value: Any) -> dict[str, str]:
    """Variables whose values everyone who may see the job may see."""
    return named(value, variable, _env_value, MOST_VARIABLES)


def secrets(value: Any) -> dict[str, str]:
    """Variables whose values appear in no message."""
    return named(value, variable, _secret_value, MOST_VARIABLES)


def variable(value: Any) -> str:
    """A valid variable name that the user may set."""
    if not isinstance(value, str) or not _KEY.match(value):
        clean = re.sub(r"\W+", "_", str(value)[:60], flags=re.ASCII).lstrip("0123456789")
        fix = f"Use letters, digits and '_', for example {clean or 'MY_NAME'!r}."
        problem = f"{shown(value)} is not a valid variable name"
        raise InvalidValue(problem, fix, "bad-variable", at_key=True)
    by_prefix = (why for start, why in _RESERVED_PREFIXES.items() if value.startswith(start))
    reserved = _RESERVED.get(value) or next(by_prefix, None)
    if reserved is not None:
        reason, fix = reserved
        problem = f"the variable {value!r} cannot be set for a job: {reason}"
        raise InvalidValue(problem, fix.format(name=value), "reserved-variable", at_key=True)
    return value


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
    reject_unwritable(value)
    return value


def _no_value(option: str) -> InvalidValue:
    fix = f"Write a value, or pass '{option} NAME=VALUE' when you submit."
    return InvalidValue("has no value", fix, "missing-value")
