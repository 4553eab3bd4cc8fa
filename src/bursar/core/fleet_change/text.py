"""The values of a fleet's declaration in words, for showing what is different between two."""

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
"""The name of a field, what it was and what it is."""

_WHOLE = (GpuModel, Budget)
"""Values that are one thing to a reader, though they have parts."""


def differing(old: Any, new: Any, path: str = "") -> Iterator[Difference]:
    """The fields in which two values of one class differ, those of parts with a dotted name."""
    for one in fields(old):
        was, now = getattr(old, one.name), getattr(new, one.name)
        if was == now:
            continue
        name = f"{path}{one.name}"
        same_kind = type(was) is type(now) and is_dataclass(was) and not isinstance(was, _WHOLE)
        if same_kind:
            yield from differing(was, now, f"{name}.")
        else:
            yield name, was, now


def say_value(name: str, value: Any) -> str:
    """A value in the unit that its field's name ends with."""
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return ", ".join(say_value(name, one) for one in value) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={one}" for key, one in sorted(value.items())) or "none"
    if isinstance(value, Budget):
        return f"{write_usd(value.amount_micro_usd)} a {value.period}, {_say_steps(value)}"
    if isinstance(value, Taint):
        return f"{value.key}={value.value}" if value.value else value.key
    if isinstance(value, GpuModel):
        return value.name
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _with_unit(name, value)


def _say_steps(budget: Budget) -> str:
    """``hard``, or with steps of its own ``hard (80 % notify, 100 % block-new)``."""
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


def say_pool(pool: Pool, nodes: int) -> str:
    """A pool in a line."""
    gpus = f" with {pool.gpus_per_node} x {pool.gpu_model.name}" if pool.gpu_model else ""
    price = write_usd(pool.node_micro_usd_per_hour)
    return f"{nodes:,} {pool.market} nodes{gpus} at {price}/h each"


def say_quota(quota: Quota, resource: str) -> str:
    """``16, may borrow 8, lends 4``."""
    parts = [write_amount(resource, quota.nominal)]
    if quota.borrowing_limit is not None:
        parts.append(f"may borrow {write_amount(resource, quota.borrowing_limit)}")
    if quota.lending_limit is not None:
        parts.append(f"lends {write_amount(resource, quota.lending_limit)}")
    return ", ".join(parts)
