"""Packs a function call as a job: pickled, with the module of the function.

An importable function is pickled by name, and its top-level module or package is packed unless it is
installed. A function of the running script, of another function or of a notebook is pickled by value, which
needs the ``cloudpickle`` package here and in the job.
"""

from __future__ import annotations

import json
import pickle
import shlex
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from bursar.client.bundle import Bundle, pack_files
from bursar.client.errors import Invalid

FOLDER: Final = ".bursar"
PROTOCOL: Final = 4


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """The command of a job, and the files that it needs."""

    name: str
    bundle: Bundle
    run: str


def pack_call(
    function: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    *,
    python: str,
) -> FunctionCall:
    """Packs a call as files and a command. ``python`` is the interpreter of the job."""
    by_value = not _is_importable(function)
    content = _pickled(
        {"function": function, "args": tuple(args), "kwargs": dict(kwargs)}, by_value
    )
    about = {"python": f"{sys.version_info.major}.{sys.version_info.minor}", "by_value": by_value}
    packed: dict[str, bytes | Path] = {
        f"{FOLDER}/call.py": files("bursar").joinpath("sdk", "call.py").read_bytes(),
        f"{FOLDER}/call.json": json.dumps(about, sort_keys=True).encode(),
        f"{FOLDER}/call.pickle": content,
    }
    if not by_value:
        packed.update(_own_module(function))
    return FunctionCall(
        name=_job_name(function),
        bundle=pack_files(packed),
        run=f"exec {shlex.quote(python)} {FOLDER}/call.py",
    )


def _is_importable(function: Callable[..., object]) -> bool:
    """Whether another interpreter can import it by module and name."""
    module = getattr(function, "__module__", None)
    path = getattr(function, "__qualname__", "<")
    if not module or module == "__main__" or "<" in path:
        return False
    value: Any = sys.modules.get(module)
    for name in path.split("."):
        value = getattr(value, name, None)
    return value is function


def _pickled(call: Mapping[str, object], by_value: bool) -> bytes:
    pickler: Any = pickle
    try:
        pickler = import_module("cloudpickle")
    except ImportError:
        if by_value:
            raise Invalid(
                f"{_shown(call['function'])} cannot be imported by a job: it is defined in the "
                "running script or inside another function.",
                fix="Put it into a module of its own, or 'pip install cloudpickle' here and in the job.",
                code="function-needs-cloudpickle",
            ) from None
    try:
        content: bytes = pickler.dumps(call, protocol=PROTOCOL)
    except Exception as error:
        raise Invalid(
            f"the call of {_shown(call['function'])} cannot be pickled: {error}.",
            fix="Pass plain values; open files and connections inside the function.",
            code="cannot-pickle",
        ) from error
    return content


def _own_module(function: Callable[..., object]) -> dict[str, Path]:
    """The function's top-level module or package, unless it is installed."""
    top: ModuleType | None = sys.modules.get(function.__module__.split(".")[0])
    file = getattr(top, "__file__", None)
    if top is None or file is None:
        return {}
    path = Path(file).resolve()
    if any(path.is_relative_to(installed) for installed in _installed()):
        return {}
    if path.name == "__init__.py":
        return {top.__name__: path.parent}
    return {path.name: path}


def _installed() -> list[Path]:
    named = sysconfig.get_paths()
    return [Path(named[part]).resolve() for part in ("stdlib", "platstdlib", "purelib", "platlib")]


def _job_name(function: object) -> str:
    name = getattr(function, "__name__", "") or type(function).__name__
    kept = "".join(letter if letter.isalnum() else "-" for letter in name.lower())
    return kept.strip("-") or "call"


def _shown(function: object) -> str:
    module = getattr(function, "__module__", "?")
    return f"{module}.{getattr(function, '__qualname__', function)}"
