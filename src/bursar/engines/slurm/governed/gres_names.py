"""GPU models in Slurm's words. A limit on ``gres/gpu:t4`` holds for jobs that name the type only, so each
limit is written twice: for the type, and for all GPUs together."""

from __future__ import annotations

from collections.abc import Mapping

from bursar.engines.slurm.governed.desired import Amounts
from bursar.model.fleet.fleet import Fleet, Pool
from bursar.model.tenants.tenant import CPU, GPU, FlavorResource
from bursar.model.units import MILLI

GRES_LABEL = "slurm.gres"
"""A pool's label that says what Slurm calls its GPUs, where the model's short name is not it."""


class GresNames:
    """What Slurm calls the GPUs of each flavor of one cluster."""

    def __init__(self, fleet: Fleet, cluster: str, known: Mapping[str, str]) -> None:
        self.pools = tuple(pool for pool in fleet.pools if pool.cluster == cluster)
        self.nodes = {
            pool.name: tuple(node.id for node in fleet.nodes if node.pool == pool.name)
            for pool in self.pools
        }
        self.notes: list[str] = []
        self._type: dict[str, str] = {}
        self._there: dict[str, int] = {}
        for pool in self.pools:
            if pool.gpu_model is None:
                continue
            name = pool.gpu_model.name
            usual = known.get(name) or short_name(name)
            self._type.setdefault(pool.flavor, pool.labels.get(GRES_LABEL, usual))
            count = pool.gpus_per_node * len(self.nodes[pool.name])
            self._there[pool.flavor] = self._there.get(pool.flavor, 0) + count
        self._note_markets()

    def type_of(self, pool: Pool) -> str | None:
        """``t4`` of ``--gres=gpu:t4:2``; None for a pool without GPUs."""
        return self._type.get(pool.flavor)

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(sorted(set(self._type.values())))

    def limits(self, amounts: Mapping[FlavorResource, int]) -> Amounts:
        """Quotas as limits on Slurm's resources. A limit that is no less than all there is holds nobody
        back and is left out: it would only hide that there is no room."""
        found: dict[str, int] = {}
        gpus: dict[str, int] = {}
        for (flavor, resource), amount in sorted(amounts.items()):
            if resource == GPU:
                gpus[flavor] = min(amount // MILLI, self._there[flavor])
            else:
                name, units = ("cpu", amount // MILLI) if resource == CPU else ("mem", amount)
                found[name] = found.get(name, 0) + units
        for kind in self.types:
            flavors = [flavor for flavor, name in self._type.items() if name == kind]
            most = sum(gpus.get(flavor, self._there[flavor]) for flavor in flavors)
            if most < sum(self._there[flavor] for flavor in flavors):
                found[f"gres/gpu:{kind}"] = most
        most = sum(gpus.get(flavor, there) for flavor, there in self._there.items())
        if most < sum(self._there.values()):
            found["gres/gpu"] = most
        return found

    def _note_markets(self) -> None:
        by_type: dict[str, list[str]] = {}
        for flavor, name in sorted(self._type.items()):
            by_type.setdefault(name, []).append(flavor)
        for name, flavors in sorted(by_type.items()):
            if len(flavors) > 1:
                self.notes.append(
                    f"{' and '.join(flavors)} are both gpu:{name} to Slurm: their quotas are added up; "
                    f"give a pool the label {GRES_LABEL!r} if its GPUs have a type of their own"
                )


def short_name(model: str) -> str:
    """``t4-16gb`` is ``t4`` to most clusters."""
    head, dash, tail = model.rpartition("-")
    return head if dash and tail.endswith("gb") else model
