"""A function and its arguments as a job: pickled, packed with the module it stands in, and run there.

A function that can be imported travels by its name, with its top-level module or package when that is
the user's own. One that stands in the running script, in another function, or in a notebook travels by
value, which needs the ``cloudpickle`` package here and in the job.
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
    """What will run, and the files it needs."""

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
    """The call as files and a command line. ``python`` is the interpreter of the job."""
    by_value = not _has_a_name(function)
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


def _has_a_name(function: Callable[..., object]) -> bool:
    """Whether an interpreter elsewhere finds it by module and name."""
    module = getattr(function, "__module__", None)
    path = getattr(function, "__qualname__", "<")
    if not module or module == "__main__" or "<" in path:
        return False
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found is function


def _pickled(call: Mapping[str, object], by_value: bool) -> bytes:
    try:
        cloudpickle = import_module("cloudpickle")
    except ImportError:
        if by_value:
            raise Invalid(
                f"{_shown(call['function'])} cannot be imported by a job: it stands in the running "
                "script or inside another function.",
                fix="Put it into a module of its own, or 'pip install cloudpickle' here and in the job.",
                code="function-needs-cloudpickle",
            ) from None
        return _plainly_pickled(call)
    try:
        content: bytes = cloudpickle.dumps(call, protocol=PROTOCOL)
    except Exception as error:
        raise _cannot_pickle(call, error) from error
    return content


def _plainly_pickled(call: Mapping[str, object]) -> bytes:
    try:
        return pickle.dumps(call, protocol=PROTOCOL)
    except Exception as error:
        raise _cannot_pickle(call, error) from error


def _cannot_pickle(call: Mapping[str, object], error: Exception) -> Invalid:
    return Invalid(
        f"the call of {_shown(call['function'])} cannot be pickled: {error}.",
        fix="Pass plain values and open files and connections inside the function.",
        code="cannot-pickle",
    )


def _own_module(function: Callable[..., object]) -> dict[str, Path]:
    """The function's top-level module or package, unless it comes with the interpreter."""
    top: ModuleType | None = sys.modules.get(function.__module__.split(".")[0])
    place = getattr(top, "__file__", None)
    if top is None or place is None:
        return {}
    path = Path(place).resolve()
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
