"""Slurm's names of GPU models. A limit on ``gres/gpu:t4`` applies only to jobs that name the type, so each
limit is written twice: for the type, and for all GPUs together."""

from __future__ import annotations

from collections.abc import Mapping

from bursar.engines.slurm.governed.desired import Amounts
from bursar.model.fleet.fleet import Fleet, Pool
from bursar.model.tenants.tenant import CPU, GPU, FlavorResource
from bursar.model.units import MILLI

GRES_LABEL = "slurm.gres"
"""Label of a pool whose GPUs have another name in Slurm than the model's short name."""


class GresNames:
    """Slurm's names of the GPUs of one cluster, by flavor."""

    def __init__(self, fleet: Fleet, cluster: str, known: Mapping[str, str]) -> None:
        self.pools = tuple(pool for pool in fleet.pools if pool.cluster == cluster)
        self.nodes = {
            pool.name: tuple(node.id for node in fleet.nodes if node.pool == pool.name)
            for pool in self.pools
        }
        self.notes: list[str] = []
        self._type: dict[str, str] = {}
        self._gpu_count: dict[str, int] = {}
        for pool in self.pools:
            if pool.gpu_model is None:
                continue
            name = pool.gpu_model.name
            default = known.get(name) or short_name(name)
            self._type.setdefault(pool.flavor, pool.labels.get(GRES_LABEL, default))
            count = pool.gpus_per_node * len(self.nodes[pool.name])
            self._gpu_count[pool.flavor] = self._gpu_count.get(pool.flavor, 0) + count
        self._note_markets()

    def type_of(self, pool: Pool) -> str | None:
        """``t4`` of ``--gres=gpu:t4:2``; None for a pool without GPUs."""
        return self._type.get(pool.flavor)

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(sorted(set(self._type.values())))

    def limits(self, amounts: Mapping[FlavorResource, int]) -> Amounts:
        """Quotas as limits on Slurm's resources. A limit of at least the whole cluster is omitted: it has
        no effect and would only hide the real reason of a wait."""
        limits: dict[str, int] = {}
        gpus: dict[str, int] = {}
        for (flavor, resource), amount in sorted(amounts.items()):
            if resource == GPU:
                gpus[flavor] = min(amount // MILLI, self._gpu_count[flavor])
            else:
                name, units = ("cpu", amount // MILLI) if resource == CPU else ("mem", amount)
                limits[name] = limits.get(name, 0) + units
        for kind in self.types:
            flavors = [flavor for flavor, name in self._type.items() if name == kind]
            most = sum(gpus.get(flavor, self._gpu_count[flavor]) for flavor in flavors)
            if most < sum(self._gpu_count[flavor] for flavor in flavors):
                limits[f"gres/gpu:{kind}"] = most
        most = sum(gpus.get(flavor, count) for flavor, count in self._gpu_count.items())
        if most < sum(self._gpu_count.values()):
            limits["gres/gpu"] = most
        return limits

    def _note_markets(self) -> None:
        by_type: dict[str, list[str]] = {}
        for flavor, name in sorted(self._type.items()):
            by_type.setdefault(name, []).append(flavor)
        for name, flavors in sorted(by_type.items()):
            if len(flavors) > 1:
                self.notes.append(
                    f"{' and '.join(flavors)} are both gpu:{name} in Slurm: their quotas are added up; "
                    f"give a pool the label {GRES_LABEL!r} if its GPUs have their own type"
                )


def short_name(model: str) -> str:
    """``t4-16gb`` is ``t4`` on most clusters."""
    head, dash, tail = model.rpartition("-")
    return head if dash and tail.endswith("gb") else model
