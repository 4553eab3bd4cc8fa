"""Kubernetes quantities: ``500m`` of a core, ``64Gi`` of memory."""

from __future__ import annotations

import re

from bursar.simulate.readers.values import RowProblem

_QUANTITY = re.compile(r"(\d+(?:\.\d*)?(?:[eE]\d+)?)(m|[kKMGTPE]i?|)")
_FACTORS = {"": 1.0, "m": 0.001, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_FACTORS |= {"E": 1e18} | {
    f"{unit}i": 1_024.0**power for power, unit in enumerate("KMGTPE", start=1)
}
_BYTES_PER_MIB = 1_024**2


def cpu_milli(text: str) -> int:
    """Thousandths of a core."""
    return round(_amount(text, "cpu") * 1_000)


def memory_mib(text: str) -> int:
    """MiB, rounded to the nearest."""
    return round(_amount(text, "memory") / _BYTES_PER_MIB)


def _amount(text: str, column: str) -> float:
    parts = _QUANTITY.fullmatch(text)
    if parts is None or parts[2] not in _FACTORS:
        raise RowProblem(f"{column} is {text!r}, not a quantity like 500m or 64Gi")
    return float(parts[1]) * _FACTORS[parts[2]]
