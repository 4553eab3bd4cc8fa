"""Imports an existing Slurm cluster as a fleet: nodes become pools, accounts tenants, settings policies.

Notes list what one of the two cannot express. Slurm does not know prices; the caller provides them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from math import gcd

from bursar.engines.slurm.commands.inventory import Inventory, SlurmNode
from bursar.engines.slurm.governed.desired import BORROW, ROOT, Amounts, SlurmAccount
from bursar.engines.slurm.governed.gres_names import GRES_LABEL, short_name
from bursar.engines.slurm.governed.present import CurrentSetup
from bursar.model.errors import UserError
from bursar.model.fleet.fleet import (
    PARTITION_LABEL,
    Cluster,
    EngineKind,
    Fleet,
    Market,
    Node,
    Pool,
)
from bursar.model.fleet.gpu import GpuModel
from bursar.model.tenants.policy import (
    BackfillPolicy,
    OrderPolicy,
    OrderTerm,
    Policies,
    PreemptionLimits,
    SharePolicy,
)
from bursar.model.tenants.tenant import GPU, FlavorResource, Quota, Tenant
from bursar.model.units import MILLI, MINUTE_MS
from bursar.slurm_text import parse_duration_ms

IN_PARTITION = "in-"
"""Prefix of the label of nodes in a partition."""
YES = "yes"
JOBS = "-jobs"
"""Suffix of the queue of an account that has both jobs and child accounts."""
FindModel = Callable[[str], GpuModel]
Price = Callable[[GpuModel | None, int], int]
CONSERVATIVE_RESERVATIONS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsAndPrices:
    """What Slurm does not know: the models of its GPU types, and the hourly price of a node."""

    find_model: FindModel
    node_price: Price


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFleet:
    """A fleet with its tenants and policies; ``notes`` list what was guessed or omitted."""

    fleet: Fleet
    tenants: tuple[Tenant, ...]
    policies: Policies
    notes: tuple[str, ...]


def import_fleet(
    present: CurrentSetup,
    inventory: Inventory,
    known: ModelsAndPrices,
    used_accounts: Iterable[str] = (),
) -> ImportedFleet:
    """Import a cluster. ``used_accounts`` had jobs; some may have been deleted since."""
    notes: list[str] = []
    used_accounts = set(used_accounts)
    deleted = sorted(used_accounts - set(present.accounts) - {""})
    if deleted:
        notes.append(f"deleted accounts that had jobs are included: {', '.join(deleted)}")
        accounts = {name: SlurmAccount(name=name) for name in deleted}
        present = replace(present, accounts={**present.accounts, **accounts})
    pools, nodes = _pools(present.cluster, inventory, known, notes)
    levels = _levels(inventory, notes)
    cluster = Cluster(name=present.cluster, topology_levels=levels, engine=EngineKind.SLURM)
    fleet = Fleet(
        clusters=(cluster,), pools=pools, nodes=tuple(_with_switches(nodes, inventory, levels))
    )
    tenants = _Tenants(present, pools, nodes, notes).tenants(root_has_jobs=ROOT in used_accounts)
    policies = _policies(present, inventory, notes)
    return ImportedFleet(fleet=fleet, tenants=tenants, policies=policies, notes=tuple(notes))


# -- nodes -------------------------------------------------------------------------------------------

NodeShape = tuple[str, int, int, int, tuple[str, ...], bool]


def _pools(
    cluster: str, inventory: Inventory, known: ModelsAndPrices, notes: list[str]
) -> tuple[tuple[Pool, ...], tuple[Node, ...]]:
    """One pool for each shape of node and set of partitions."""
    shapes: dict[NodeShape, list[str]] = {}
    for node in inventory.nodes:
        if len({one.kind for one in node.gpus}) > 1 and not node.device_types:
            notes.append(f"node {node.name} has several GPU types: all are read as {node.gpu_kind}")
        if node.slices:
            notes.append(f"node {node.name} has MIG instances, which are omitted")
        shapes.setdefault(_shape(node), []).append(node.name)
    pools: list[Pool] = []
    nodes: list[Node] = []
    for shape, names in sorted(shapes.items(), key=lambda one: (one[0][-1], one[0])):
        pool = _pool(cluster, shape, known, {one.name for one in pools})
        pools.append(pool)
        nodes += [Node(id=name, pool=pool.name) for name in names]
    return tuple(pools), tuple(nodes)


def _shape(node: SlurmNode) -> NodeShape:
    partitions = tuple(sorted(node.partitions))
    is_cloud = "CLOUD" in node.states
    return node.gpu_kind, node.gpu_count, node.cpus, node.memory_mib, partitions, is_cloud


def _pool(cluster: str, shape: NodeShape, known: ModelsAndPrices, used_names: set[str]) -> Pool:
    kind, gpus, cpus, memory_mib, partitions, is_cloud = shape
    model = _model(kind, known.find_model) if gpus else None
    labels = {f"{IN_PARTITION}{name}": YES for name in partitions}
    labels |= {PARTITION_LABEL: " ".join(partitions)} if partitions else {}
    if model is not None and kind not in (short_name(model.name), ""):
        labels[GRES_LABEL] = kind
    return Pool(
        name=_free_name(kind.lower() or ("gpu" if gpus else "cpu"), used_names),
        cluster=cluster,
        market=Market.ON_DEMAND if is_cloud else Market.OWNED,
        gpu_model=model,
        gpus_per_node=gpus,
        cpu_milli=cpus * MILLI,
        memory_mib=memory_mib,
        node_micro_usd_per_hour=known.node_price(model, gpus),
        labels=labels,
    )


def _model(kind: str, find: FindModel) -> GpuModel:
    try:
        return find(kind)
    except UserError as error:
        kind_text = f"of type {kind!r}" if kind else "without a type"
        raise UserError(
            f"this Slurm has GPUs {kind_text}, whose model is unknown.",
            fix=f"Pass --gpu {kind or 'gpu'}=MODEL, for example --gpu {kind or 'gpu'}=a100-80gb.",
            code="unknown-gpu-model",
        ) from error


def _free_name(base: str, used_names: set[str]) -> str:
    name, number = base, 2
    while name in used_names:
        name, number = f"{base}-{number}", number + 1
    return name


def _levels(inventory: Inventory, notes: list[str]) -> tuple[str, ...]:
    depth = inventory.topology_depth
    if not depth:
        return ()
    if any(len(node.switches) != depth for node in inventory.nodes):
        notes.append("the topology is omitted: nodes have different numbers of switches")
        return ()
    return tuple(f"switch-{number}" for number in range(1, depth + 1))


def _with_switches(
    nodes: Iterable[Node], inventory: Inventory, levels: tuple[str, ...]
) -> Iterable[Node]:
    for node in nodes:
        switches = inventory.by_name[node.id].switches
        labels = dict(zip(levels, switches, strict=True)) if levels else {}
        yield replace(node, labels=labels)


# -- accounts ----------------------------------------------------------------------------------------


class _Tenants:
    """Accounts as tenants below a root tenant with the quota of all GPUs.

    Slurm's cap (GrpTRES) limits an account but guarantees nothing: it becomes a borrowing limit without
    a nominal quota. A QOS with the account's name is what ``bursar render slurm`` writes for a guarantee,
    and is read back as a nominal quota.
    """

    def __init__(
        self,
        present: CurrentSetup,
        pools: tuple[Pool, ...],
        nodes: tuple[Node, ...],
        notes: list[str],
    ) -> None:
        self._current = present
        self._notes = notes
        self._accounts = [one for one in present.accounts.values() if one.name != ROOT]
        self._children: dict[str, list[SlurmAccount]] = {}
        for one in self._accounts:
            self._children.setdefault(one.parent, []).append(one)
        self._flavor_of: dict[str, str] = {}
        self._total: dict[str, int] = {}
        sizes = {pool.name: pool.gpus_per_node for pool in pools}
        for pool in pools:
            if pool.gpu_model is not None:
                kind = pool.labels.get(GRES_LABEL, short_name(pool.gpu_model.name))
                self._flavor_of.setdefault(kind, pool.flavor)
                count = sum(sizes[node.pool] for node in nodes if node.pool == pool.name)
                self._total[pool.flavor] = self._total.get(pool.flavor, 0) + count

    def tenants(self, *, root_has_jobs: bool) -> tuple[Tenant, ...]:
        limited = any(self._amounts(one.most) for one in self._accounts)
        limited = limited or any(self._guaranteed(one) for one in self._accounts)
        top = self._current.cluster
        tenants = [Tenant(name=top, quotas=self._all_gpus() if limited else {})]
        users = {one.account for one in self._current.members}
        for account in self._accounts:
            leaf = account.name not in self._children
            parent = top if account.parent == ROOT else account.parent
            tenant = Tenant(
                name=account.name,
                parent=parent,
                weight=self._weight(account),
                quotas=self._quotas(account) if limited else {},
                is_queue=leaf,
            )
            tenants.append(tenant)
            if not leaf and account.name in users:
                quotas = {key: Quota(nominal=0) for key in tenant.quotas}
                name = f"{account.name}{JOBS}"
                tenants.append(Tenant(name=name, parent=account.name, quotas=quotas, is_queue=True))
        if root_has_jobs:
            quotas = {key: Quota(nominal=0) for key in tenants[0].quotas}
            tenants.append(Tenant(name=ROOT, parent=top, quotas=quotas, is_queue=True))
        if len(tenants) == 1:
            tenants = [replace(tenants[0], is_queue=True)]
        return tuple(self._with_remaining_quota(tenants)) if limited else tuple(tenants)

    def _weight(self, account: SlurmAccount) -> float:
        """Shares divided by the greatest common divisor of the siblings': 60 and 40 are 3 and 2."""
        if not account.shares:
            return 1.0
        level = [one.shares for one in self._children[account.parent] if one.shares]
        return float(account.shares // reduce(gcd, level))

    def _all_gpus(self) -> Mapping[FlavorResource, Quota]:
        return {
            (flavor, GPU): Quota(nominal=count * MILLI) for flavor, count in self._total.items()
        }

    def _quotas(self, account: SlurmAccount) -> Mapping[FlavorResource, Quota]:
        caps, guaranteed = self._amounts(account.most), self._guaranteed(account)
        borrowing_qos = self._current.qos.get(f"{account.name}{BORROW}")
        most_borrowed = self._amounts(borrowing_qos.most) if borrowing_qos else {}
        quotas = {}
        for flavor in self._total:
            nominal = guaranteed.get(flavor, 0)
            limits = [caps[flavor] - nominal] if flavor in caps else []
            limits += [most_borrowed[flavor]] if flavor in most_borrowed else []
            quotas[flavor, GPU] = Quota(
                nominal=nominal, borrowing_limit=max(0, min(limits)) if limits else None
            )
        return quotas

    def _guaranteed(self, account: SlurmAccount) -> dict[str, int]:
        qos = self._current.qos.get(account.name)
        return {} if qos is None else self._amounts(qos.most)

    def _amounts(self, most: Amounts) -> dict[str, int]:
        """Limits on GPUs by flavor, in milli-GPUs."""
        amounts = {}
        for name, amount in most.items():
            kind = name.removeprefix("gres/gpu:")
            if kind in self._flavor_of and kind != name:
                amounts[self._flavor_of[kind]] = amount * MILLI
        if "gres/gpu" in most and not amounts and len(self._total) == 1:
            amounts[next(iter(self._total))] = most["gres/gpu"] * MILLI
        elif "gres/gpu" in most and not amounts:
            note = "limits on all GPUs together (gres/gpu) are omitted: quotas are by model"
            if note not in self._notes:
                self._notes.append(note)
        return amounts

    def _with_remaining_quota(self, tenants: list[Tenant]) -> Iterable[Tenant]:
        """Subtract the descendants' nominal quotas from that of the root tenant."""
        nominal: dict[FlavorResource, int] = {}
        for tenant in tenants[1:]:
            for key, quota in tenant.quotas.items():
                nominal[key] = nominal.get(key, 0) + quota.nominal
        remaining = {
            key: Quota(nominal=max(0, quota.nominal - nominal.get(key, 0)))
            for key, quota in tenants[0].quotas.items()
        }
        return [replace(tenants[0], quotas=remaining), *tenants[1:]]


# -- policies ----------------------------------------------------------------------------------------


def _policies(present: CurrentSetup, inventory: Inventory, notes: list[str]) -> Policies:
    settings = present.settings
    multifactor = settings.get("PriorityType", "").endswith("multifactor")
    fair = multifactor and int(settings.get("PriorityWeightFairShare", "0") or 0) > 0
    if fair and "NO_FAIR_TREE" in settings.get("PriorityFlags", "").upper():
        notes.append("this Slurm uses classic fair share; fair tree is used instead")
    if int(settings.get("PriorityWeightJobSize", "0") or 0):
        notes.append("the weight of a job's size in its priority is omitted")
    half_life_ms = parse_duration_ms(settings.get("PriorityDecayHalfLife", "")) or None
    backfills = settings.get("SchedulerType", "").endswith("backfill")
    default = [one.default_minutes for one in inventory.partitions if one.default_minutes]
    limits = PreemptionLimits(
        minimum_run_ms=parse_duration_ms(settings.get("PreemptExemptTime", "")) or 0
    )
    if settings.get("PreemptMode", "OFF").upper().startswith("OFF"):
        limits = replace(limits, searches_per_cycle=0)
    return Policies(
        order=OrderPolicy(
            share=SharePolicy.FAIR_TREE if fair else SharePolicy.NONE,
            terms=(OrderTerm.SUBMITTED,),
            half_life_ms=half_life_ms,
            entry_horizon_ms=0,
        ),
        backfill=BackfillPolicy(
            reservations=CONSERVATIVE_RESERVATIONS if backfills else 0,
            unknown_run_time_ms=max(default) * MINUTE_MS if default else 24 * 60 * MINUTE_MS,
            reserve_unknown_after_ms=0,
        ),
        preemption=limits,
        priority_classes=_classes(present),
    )


def _classes(present: CurrentSetup) -> dict[str, int]:
    """Each QOS as a priority class of the same rank, and ``normal``."""
    return {"normal": 0} | {name: one.priority for name, one in sorted(present.qos.items())}
