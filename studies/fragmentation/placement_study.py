"""The placement study of "Beware of Fragmentation" (USENIX ATC'23) on Alibaba's openb cluster.

Pods are sampled from a workload until they request more GPUs than the cluster has, and placed one after
the other; none ends. The result is the share of all GPUs that is allocated when the requests reach the
capacity. The study's program breaks ties between nodes by a name that carries no information, so node
names are shuffled here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import accumulate
from pathlib import Path
from random import Random

from bursar.core.nodes.workload_mix import WorkloadMix
from bursar.model.decision import StartJob
from bursar.model.event import JobSubmitted
from bursar.model.tenants.policy import PlacementPolicy, Policies
from bursar.model.units import DAY_MS, MILLI, SECOND_MS
from bursar.simulate.named_policies import RunTimeSource, choose_policy
from bursar.simulate.scenario import Delays, Scenario
from bursar.simulate.simulation import Check, Simulation
from bursar.simulate.traces import read_trace
from bursar.simulate.workload.trace import Trace, TraceJob
from bursar.simulate.workload.trace_scenario import TraceMapping, as_scenario
from studies.formats.openb_nodes import NodeList, read_nodes
from studies.fragmentation.trace_fleet import fleet_of_nodes

FOLDER = "alibaba_openb_gpu_v2023"
DEFAULT = "default"
WORKLOADS = (
    DEFAULT,
    *("cpu050", "cpu100", "cpu200", "cpu250"),
    *("gpushare40", "gpushare60", "gpushare80", "gpushare100"),
    *("multigpu20", "multigpu30", "multigpu40", "multigpu50"),
    *("gpuspec10", "gpuspec20", "gpuspec25", "gpuspec33"),
)
LAST_MS = 100 * DAY_MS
"""Longer than any run, so that no pod ends."""


@cache
def _nodes(traces: Path) -> NodeList:
    return read_nodes(traces / FOLDER / "openb_node_list_gpu_node.csv")


@cache
def _pods(traces: Path, workload: str) -> tuple[TraceJob, ...]:
    folder = traces / FOLDER
    if workload == DEFAULT:
        return read_trace(str(folder / "openb_pod_list_default.csv.xz")).jobs
    archive = folder / "openb_pod_list_variants.tar.xz"
    return read_trace(f"{archive}::openb_pod_list_{workload}.csv", "openb").jobs


def drawn_pods(traces: Path, workload: str, seed: int, load: float) -> Iterator[TraceJob]:
    """Yields pods one second apart that request at least ``load`` times the cluster's GPUs.

    Pods of the list are used once each; if they are too few, some are repeated.
    """
    rng = Random(f"{workload}/{seed}")
    pods = list(_pods(traces, workload))
    rng.shuffle(pods)
    target_milli = int(load * MILLI * _nodes(traces).gpus)
    requested = list(accumulate(pod.gpu_total_milli for pod in pods))
    while requested[-1] < target_milli:
        pods.append(rng.choice(pods))
        requested.append(requested[-1] + pods[-1].gpu_total_milli)
    count = next(at for at, milli in enumerate(requested, 1) if milli >= target_milli)
    sample = pods[:count]
    rng.shuffle(sample)
    for number, pod in enumerate(sample):
        name = f"pod-{number:05}"
        at_ms = number * SECOND_MS
        yield replace(pod, job_id=name, submitted_ms=at_ms, run_ms=LAST_MS, team="all", outcome="")


def _renamed(machines: NodeList, seed: int) -> NodeList:
    names = [machine.node_id for machine in machines.nodes]
    Random(seed).shuffle(names)
    pairs = zip(machines.nodes, names, strict=True)
    return replace(machines, nodes=tuple(replace(one, node_id=name) for one, name in pairs))


class PlacementStudy:
    """One workload, sampled with one seed, under one placement policy."""

    def __init__(
        self, traces: Path, workload: str, placement: str, *, seed: int = 42, load: float = 1.3
    ) -> None:
        machines = _renamed(_nodes(traces), seed)
        pods = tuple(drawn_pods(traces, workload, seed, load))
        choice = choose_policy(f"order=fifo,placement={placement}", Policies())
        mapping = TraceMapping(teams_share_a_queue=True, estimate=RunTimeSource.NONE)
        run = as_scenario(
            Trace(source=workload, jobs=pods),
            fleet_of_nodes(machines),
            (),
            replace(choice.policies, placement_seed=seed),
            mapping,
        )
        self.pods = pods
        self.capacity_milli = MILLI * machines.gpus
        self.given_milli = 0
        self.arrived = 0
        self._scenario: Scenario = replace(
            run.scenario,
            tenants=choice.tenants(run.scenario.tenants),
            delays=Delays(start_ms=0, stop_ms=0),
        )

    def place(self, *, until: float = 1.0, check: Check | None = None) -> float:
        """Places pods until they request ``until`` of all GPUs; returns the percent allocated."""
        milli_of = {pod.job_id: pod.gpu_total_milli for pod in self.pods}
        requested = list(accumulate(milli_of.values()))
        target_milli = until * self.capacity_milli
        last = next((at for at, milli in enumerate(requested) if milli >= target_milli), -1)
        last_ms = self.pods[last].submitted_ms
        simulation = Simulation(self._scenario, check=check)
        if self._scenario.policies.placement is PlacementPolicy.FRAGMENTATION_GRADIENT:
            self._preload_mix(simulation.state.mix)
        for step in simulation.steps():
            if step.now_ms > last_ms:
                break
            self.arrived = step.now_ms // SECOND_MS + 1
            for decision in step.decisions:
                if isinstance(decision, StartJob):
                    self.given_milli += milli_of[decision.job_id]
        return 100 * self.given_milli / self.capacity_milli

    def _preload_mix(self, mix: WorkloadMix) -> None:
        """The study's program knows the workload beforehand; ours normally learns it."""
        for event in self._scenario.events:
            assert isinstance(event, JobSubmitted)
            for group in event.spec.groups:
                mix.add(group, group.count)
