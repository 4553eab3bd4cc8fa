"""Formats values of a fleet declaration as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from bursar.model.fleet.fleet import Pool, Taint
from bursar.model.fleet.gpu import GpuModel
from bursar.model.reason import write_amount
from bursar.model.tenants.tenant import Budget, Quota
from bursar.model.units import GIB_MIB, MILLI, write_duration, write_usd

Difference = tuple[str, Any, Any]
"""Name of a field, its old value and its new value."""

_ATOMIC = (GpuModel, Budget)
"""Classes whose values are compared and shown as one, not field by field."""


def differing(old: Any, new: Any, path: str = "") -> Iterator[Difference]:
    """Fields in which two values of one class differ; nested fields have dotted names."""
    for each in fields(old):
        before, after = getattr(old, each.name), getattr(new, each.name)
        if before == after:
            continue
        name = f"{path}{each.name}"
        is_same_class = type(before) is type(after) and is_dataclass(before)
        if is_same_class and not isinstance(before, _ATOMIC):
            yield from differing(before, after, f"{name}.")
        else:
            yield name, before, after


def write_value(name: str, value: Any) -> str:
    """Formats a value in the unit that its field's name ends with."""
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return ", ".join(write_value(name, one) for one in value) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={one}" for key, one in sorted(value.items())) or "none"
    if isinstance(value, Budget):
        return f"{write_usd(value.amount_micro_usd)} a {value.period}, {_write_steps(value)}"
    if isinstance(value, Taint):
        return f"{value.key}={value.value}" if value.value else value.key
    if isinstance(value, GpuModel):
        return value.name
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _with_unit(name, value)


def _write_steps(budget: Budget) -> str:
    """Formats as ``hard``, or with its own steps as ``hard (80 % notify, 100 % block-new)``."""
    steps = ", ".join(f"{one.at_percent} % {one.action}" for one in budget.steps)
    return f"{budget.enforcement} ({steps})" if steps else str(budget.enforcement)


def _with_unit(name: str, value: Any) -> str:
    if name.endswith("_ms"):
        return write_duration(value)
    if "micro_usd" in name:
        return write_usd(value)
    if name.endswith("cpu_milli"):
        return f"{value / MILLI:g} CPUs"
    if name.endswith("_mib"):
        return f"{value / GIB_MIB:g} GiB"
    return f"{value:g}" if isinstance(value, float) else str(value)


def write_pool(pool: Pool, nodes: int) -> str:
    """Formats a pool in one line."""
    gpus = f" with {pool.gpus_per_node} x {pool.gpu_model.name}" if pool.gpu_model else ""
    price = write_usd(pool.node_micro_usd_per_hour)
    return f"{nodes:,} {pool.market} nodes{gpus} at {price}/h each"


def write_quota(quota: Quota, resource: str) -> str:
    """Formats a quota as ``16, may borrow 8, lends 4``."""
    parts = [write_amount(resource, quota.nominal)]
    if quota.borrowing_limit is not None:
        parts.append(f"may borrow {write_amount(resource, quota.borrowing_limit)}")
    if quota.lending_limit is not None:
        parts.append(f"lends {write_amount(resource, quota.lending_limit)}")
    return ", ".join(parts)
