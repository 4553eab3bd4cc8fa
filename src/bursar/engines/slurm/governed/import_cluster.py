"""An existing Slurm as a fleet of ours: nodes become pools, accounts tenants, settings policies.

What Slurm knows and a fleet cannot say, and the other way round, is told in notes. Prices are not Slurm's to
know: the caller brings them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from math import gcd

from bursar.engines.slurm.commands.inventory import Inventory, SlurmNode
from bursar.engines.slurm.commands.tables import duration_ms
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

IN_PARTITION = "in-"
"""Before a partition's name: the label of nodes that are in it."""
YES = "yes"
JOBS = "-jobs"
"""Ends the name of the queue of an account that has both jobs and accounts below it."""
FindModel = Callable[[str], GpuModel]
Price = Callable[[GpuModel | None, int], int]
CONSERVATIVE_RESERVATIONS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the caller brings: the models behind Slurm's types, and what an hour of a node costs."""

    find_model: FindModel
    node_price: Price


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFleet:
    """A fleet, who shares it and by which rules; ``notes`` say what was guessed or lost."""

    fleet: Fleet
    tenants: tuple[Tenant, ...]
    policies: Policies
    notes: tuple[str, ...]


def import_fleet(
    present: CurrentSetup, found: Inventory, known: Known, remembered: Iterable[str] = ()
) -> ImportedFleet:
    """Everything in one. ``remembered`` are accounts that jobs had; some may be deleted since."""
    notes: list[str] = []
    gone = sorted(set(remembered) - set(present.accounts) - {""})
    if gone:
        notes.append(f"accounts that Slurm has no more but had jobs are kept: {', '.join(gone)}")
        kept = {name: SlurmAccount(name=name) for name in gone}
        present = replace(present, accounts={**present.accounts, **kept})
    pools, nodes = _pools(present.cluster, found, known, notes)
    levels = _levels(found, notes)
    cluster = Cluster(name=present.cluster, topology_levels=levels, engine=EngineKind.SLURM)
    fleet = Fleet(clusters=(cluster,), pools=pools, nodes=tuple(_placed(nodes, found, levels)))
    tenants = _Tenants(present, pools, nodes, notes).tenants(root_has_jobs=ROOT in set(remembered))
    policies = _policies(present, found, notes)
    return ImportedFleet(fleet=fleet, tenants=tenants, policies=policies, notes=tuple(notes))


# -- nodes -------------------------------------------------------------------------------------------

Shape = tuple[str, int, int, int, tuple[str, ...], bool]


def _pools(
    cluster: str, found: Inventory, known: Known, notes: list[str]
) -> tuple[tuple[Pool, ...], tuple[Node, ...]]:
    """One pool for each shape of node and set of partitions."""
    shapes: dict[Shape, list[str]] = {}
    for node in found.nodes:
        if len({one.kind for one in node.gpus}) > 1 and not node.device_types:
            notes.append(f"node {node.name} mixes types of GPU: all are taken as {node.gpu_kind}")
        if node.slices:
            notes.append(f"node {node.name} has MIG instances, which are left out")
        shapes.setdefault(_shape(node), []).append(node.name)
    pools: list[Pool] = []
    nodes: list[Node] = []
    for shape, names in sorted(shapes.items(), key=lambda one: (one[0][-1], one[0])):
        pool = _pool(cluster, shape, known, {one.name for one in pools})
        pools.append(pool)
        nodes += [Node(id=name, pool=pool.name) for name in names]
    return tuple(pools), tuple(nodes)


def _shape(node: SlurmNode) -> Shape:
    partitions = tuple(sorted(node.partitions))
    is_cloud = "CLOUD" in node.states
    return node.gpu_kind, node.gpu_count, node.cpus, node.memory_mib, partitions, is_cloud


def _pool(cluster: str, shape: Shape, known: Known, taken: set[str]) -> Pool:
    kind, gpus, cpus, memory_mib, partitions, is_cloud = shape
    model = _model(kind, known.find_model) if gpus else None
    labels = {f"{IN_PARTITION}{name}": YES for name in partitions}
    labels |= {PARTITION_LABEL: " ".join(partitions)} if partitions else {}
    if model is not None and kind not in (short_name(model.name), ""):
        labels[GRES_LABEL] = kind
    return Pool(
        name=_free_name(kind.lower() or ("gpu" if gpus else "cpu"), taken),
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
        told = f"of type {kind!r}" if kind else "without a type"
        raise UserError(
            f"this Slurm has GPUs {told}, and we do not know which model that is.",
            fix=f"Say it with --gpu {kind or 'gpu'}=MODEL, for example --gpu {kind or 'gpu'}=a100-80gb.",
            code="unknown-gpu-model",
        ) from error


def _free_name(wanted: str, taken: set[str]) -> str:
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    return name


def _levels(found: Inventory, notes: list[str]) -> tuple[str, ...]:
    depth = found.topology_depth
    if not depth:
        return ()
    if any(len(node.switches) != depth for node in found.nodes):
        notes.append("the topology is left out: not all nodes are below as many switches")
        return ()
    return tuple(f"switch-{number}" for number in range(1, depth + 1))


def _placed(nodes: Iterable[Node], found: Inventory, levels: tuple[str, ...]) -> Iterable[Node]:
    for node in nodes:
        switches = found.by_name[node.id].switches
        labels = dict(zip(levels, switches, strict=True)) if levels else {}
        yield replace(node, labels=labels)


# -- accounts ----------------------------------------------------------------------------------------


class _Tenants:
    """Accounts as tenants below one that stands for the cluster and holds all its GPUs.

    A cap of Slurm (GrpTRES) says how much an account may hold and promises nothing: nothing of its own,
    and to borrow up to the cap. A QOS with the account's name is what ``bursar render slurm`` writes for
    a promise, and is read back as one.
    """

    def __init__(
        self,
        present: CurrentSetup,
        pools: tuple[Pool, ...],
        nodes: tuple[Node, ...],
        notes: list[str],
    ) -> None:
        self._present = present
        self._notes = notes
        self._accounts = [one for one in present.accounts.values() if one.name != ROOT]
        self._below: dict[str, list[SlurmAccount]] = {}
        for one in self._accounts:
            self._below.setdefault(one.parent, []).append(one)
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
        limited = limited or any(self._promised(one) for one in self._accounts)
        top = self._present.cluster
        found = [Tenant(name=top, quotas=self._everything() if limited else {})]
        users = {one.account for one in self._present.members}
        for account in self._accounts:
            leaf = account.name not in self._below
            parent = top if account.parent == ROOT else account.parent
            tenant = Tenant(
                name=account.name,
                parent=parent,
                weight=self._weight(account),
                quotas=self._quotas(account) if limited else {},
                is_queue=leaf,
            )
            found.append(tenant)
            if not leaf and account.name in users:
                quotas = {key: Quota(nominal=0) for key in tenant.quotas}
                name = f"{account.name}{JOBS}"
                found.append(Tenant(name=name, parent=account.name, quotas=quotas, is_queue=True))
        if root_has_jobs:
            quotas = {key: Quota(nominal=0) for key in found[0].quotas}
            found.append(Tenant(name=ROOT, parent=top, quotas=quotas, is_queue=True))
        if len(found) == 1:
            found = [replace(found[0], is_queue=True)]
        return tuple(self._with_room_left(found)) if limited else tuple(found)

    def _weight(self, account: SlurmAccount) -> float:
        """Shares by their greatest common part among siblings: 60 and 40 are 3 and 2."""
        if not account.shares:
            return 1.0
        level = [one.shares for one in self._below[account.parent] if one.shares]
        return float(account.shares // reduce(gcd, level))

    def _everything(self) -> Mapping[FlavorResource, Quota]:
        return {
            (flavor, GPU): Quota(nominal=count * MILLI) for flavor, count in self._total.items()
        }

    def _quotas(self, account: SlurmAccount) -> Mapping[FlavorResource, Quota]:
        caps, promised = self._amounts(account.most), self._promised(account)
        borrows = self._present.qos.get(f"{account.name}{BORROW}")
        most_borrowed = self._amounts(borrows.most) if borrows else {}
        found = {}
        for flavor in self._total:
            own = promised.get(flavor, 0)
            limits = [caps[flavor] - own] if flavor in caps else []
            limits += [most_borrowed[flavor]] if flavor in most_borrowed else []
            found[flavor, GPU] = Quota(
                nominal=own, borrowing_limit=max(0, min(limits)) if limits else None
            )
        return found

    def _promised(self, account: SlurmAccount) -> dict[str, int]:
        qos = self._present.qos.get(account.name)
        return {} if qos is None else self._amounts(qos.most)

    def _amounts(self, most: Amounts) -> dict[str, int]:
        """Limits on GPUs by flavor, in milli-GPUs."""
        found = {}
        for name, amount in most.items():
            kind = name.removeprefix("gres/gpu:")
            if kind in self._flavor_of and kind != name:
                found[self._flavor_of[kind]] = amount * MILLI
        if "gres/gpu" in most and not found and len(self._total) == 1:
            found[next(iter(self._total))] = most["gres/gpu"] * MILLI
        elif "gres/gpu" in most and not found:
            note = "limits on all GPUs together (gres/gpu) are left out: quotas are held by model"
            if note not in self._notes:
                self._notes.append(note)
        return found

    def _with_room_left(self, tenants: list[Tenant]) -> Iterable[Tenant]:
        """What is promised below comes out of what the cluster's own tenant holds."""
        promised: dict[FlavorResource, int] = {}
        for tenant in tenants[1:]:
            for key, quota in tenant.quotas.items():
                promised[key] = promised.get(key, 0) + quota.nominal
        kept = {
            key: Quota(nominal=max(0, quota.nominal - promised.get(key, 0)))
            for key, quota in tenants[0].quotas.items()
        }
        return [replace(tenants[0], quotas=kept), *tenants[1:]]


# -- policies ----------------------------------------------------------------------------------------


def _policies(present: CurrentSetup, found: Inventory, notes: list[str]) -> Policies:
    settings = present.settings
    multifactor = settings.get("PriorityType", "").endswith("multifactor")
    fair = multifactor and int(settings.get("PriorityWeightFairShare", "0") or 0) > 0
    if fair and "NO_FAIR_TREE" in settings.get("PriorityFlags", "").upper():
        notes.append(
            "this Slurm compares accounts by classic fair share; fair tree is used instead"
        )
    if int(settings.get("PriorityWeightJobSize", "0") or 0):
        notes.append("the weight of a job's size in its priority is left out")
    half_life_ms = duration_ms(settings.get("PriorityDecayHalfLife", "")) or None
    backfills = settings.get("SchedulerType", "").endswith("backfill")
    default = [one.default_minutes for one in found.partitions if one.default_minutes]
    limits = PreemptionLimits(
        minimum_run_ms=duration_ms(settings.get("PreemptExemptTime", "")) or 0
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
    """A QOS is a priority class of the same rank; ``normal`` is always there."""
    found = {name: one.priority for name, one in sorted(present.qos.items())}
    return {"normal": 0} | found
