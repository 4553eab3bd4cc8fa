"""Parses ``--change``: the path of a setting of a recorded fleet, and its new value.

``quota.TENANT.FLAVOR=64`` (also with ``.borrow`` or ``.lend`` after the flavor), ``weight.TENANT=2``,
``nodes.POOL=12``, ``policy.backfill=easy``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from bursar.model.errors import UserError
from bursar.model.fleet.fleet import Node
from bursar.model.suggestion import suggest_among
from bursar.model.tenants.tenant import GPU, Quota, Tenant
from bursar.model.units import MILLI
from bursar.simulate.named_policies import KEYS, choose_policy
from bursar.simulate.runs.run_request import FleetChoice

MAX_NODES = 1_000_000


def change(fleet: FleetChoice, text: str) -> FleetChoice:
    """The fleet with one change applied."""
    path, equals, value = (part.strip() for part in text.partition("="))
    kind, dot, rest = path.partition(".")
    if not equals or not dot or not rest or not value:
        raise UserError(
            f"--change {text!r} is not a path and a value.",
            fix="Write, for example, 'quota.research.a100-80gb/owned=64' or 'nodes.a100=12'.",
            code="bad-change",
        )
    if kind not in CHANGES:
        raise _unknown(kind, CHANGES, "not a setting that can be changed")
    return CHANGES[kind](fleet, rest, value)


# -- tenants ---------------------------------------------------------------------------------------


def _change_weight(fleet: FleetChoice, path: str, value: str) -> FleetChoice:
    tenant = _tenant(fleet, path)
    weight = _number(f"weight.{path}", value)
    return _with_tenant(fleet, replace(tenant, weight=weight))


def _change_quota(fleet: FleetChoice, path: str, value: str) -> FleetChoice:
    names = [tenant.name for tenant in fleet.tenants]
    owners = [name for name in names if path.startswith(f"{name}.")]
    if not owners:
        raise _unknown(path.partition(".")[0], names, "not a tenant of this fleet")
    name = max(owners, key=len)
    flavor, dot, part = path.removeprefix(f"{name}.").partition(".")
    if dot and part not in ("nominal", "borrow", "lend"):
        raise _unknown(part, ("nominal", "borrow", "lend"), "not a field of a quota")
    tenant = _tenant(fleet, name)
    key = _flavor(fleet, flavor), GPU
    quota = _changed_quota(tenant.quotas.get(key, Quota(nominal=0)), part, path, value)
    return _with_tenant(fleet, replace(tenant, quotas={**tenant.quotas, key: quota}))


def _changed_quota(quota: Quota, part: str, path: str, value: str) -> Quota:
    if part in ("borrow", "lend") and value == "none":
        amount = None
    else:
        amount = round(_number(f"quota.{path}", value) * MILLI)
    if part == "borrow":
        return replace(quota, borrowing_limit=amount)
    if part == "lend":
        return replace(quota, lending_limit=amount)
    assert amount is not None
    return replace(quota, nominal=amount)


def _flavor(fleet: FleetChoice, text: str) -> str:
    """A flavor of the fleet by its name or by a unique prefix, such as ``a100``."""
    flavors = sorted({pool.flavor for pool in fleet.fleet.pools})
    matches = [one for one in flavors if one == text] or [
        one for one in flavors if one.startswith((f"{text}/", f"{text}-"))
    ]
    if len(matches) > 1:
        raise UserError(
            f"--change: {text!r} is ambiguous: {', '.join(matches)}.",
            fix="Write the whole flavor.",
            code="bad-change",
        )
    if not matches:
        raise _unknown(text, flavors, "not a flavor of this fleet")
    return matches[0]


def _tenant(fleet: FleetChoice, name: str) -> Tenant:
    for tenant in fleet.tenants:
        if tenant.name == name:
            return tenant
    names = [tenant.name for tenant in fleet.tenants]
    raise _unknown(name, names, "not a tenant of this fleet")


def _with_tenant(fleet: FleetChoice, changed: Tenant) -> FleetChoice:
    tenants = (changed if one.name == changed.name else one for one in fleet.tenants)
    return replace(fleet, tenants=tuple(tenants))


# -- nodes and policies ----------------------------------------------------------------------------


def _change_nodes(fleet: FleetChoice, path: str, value: str) -> FleetChoice:
    """Removes the last nodes, or adds nodes with the labels of the existing ones in turn."""
    pools = [pool.name for pool in fleet.fleet.pools]
    if path not in pools:
        raise _unknown(path, pools, "not a pool of this fleet")
    count = _number(f"nodes.{path}", value)
    if count != round(count) or count > MAX_NODES:
        raise _not_a_number(f"nodes.{path}", value, f"a whole number up to {MAX_NODES:,}")
    existing = [node for node in fleet.fleet.nodes if node.pool == path]
    others = [node for node in fleet.fleet.nodes if node.pool != path]
    nodes = existing[: round(count)]
    for number in range(round(count) - len(nodes)):
        labels = existing[number % len(existing)].labels if existing else {}
        nodes.append(Node(id=f"{path}-added-{number + 1:04}", pool=path, labels=labels))
    return replace(fleet, fleet=replace(fleet.fleet, nodes=(*others, *nodes)))


def _change_policy(fleet: FleetChoice, path: str, value: str) -> FleetChoice:
    if path not in KEYS:
        raise _unknown(path, KEYS, "not a key of a policy")
    choice = choose_policy(f"{path}={value}", fleet.policies, fleet.estimates)
    return replace(
        fleet,
        policies=choice.policies,
        tenants=choice.tenants(fleet.tenants),
        estimates=choice.estimates,
    )


CHANGES: Mapping[str, Callable[[FleetChoice, str, str], FleetChoice]] = {
    "quota": _change_quota,
    "weight": _change_weight,
    "nodes": _change_nodes,
    "policy": _change_policy,
}


# -- values and errors -----------------------------------------------------------------------------


def _number(path: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise _not_a_number(path, value, "a number of 0 or more")
    return number


def _not_a_number(path: str, value: str, wanted: str) -> UserError:
    return UserError(f"--change {path}={value}: not {wanted}.", fix="Write one.", code="bad-change")


def _unknown(name: str, known: Iterable[str], what: str) -> UserError:
    return UserError(
        f"--change: {name!r} is {what}.",
        fix=suggest_among(name, known, 0.5),
        code="bad-change",
    )
