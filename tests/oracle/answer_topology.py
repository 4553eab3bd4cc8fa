"""Answers the published topology cases: Kubernetes objects in, our placement out in Kueue's terms.

Labels, taints, affinity, pods and feature gates stay here; the core only ever sees counts per leaf.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bursar.core.other_schedulers.kueue_topology.place import (
    KueueAssignment,
    KueueDomainCount,
    place,
)
from bursar.core.other_schedulers.kueue_topology.reassign import (
    find_stale,
    grow,
    replace_lost,
    shrink,
)
from bursar.core.other_schedulers.kueue_topology.request import KueueTopologyRequest, LeafCounts
from bursar.core.topology.place import place as place_as_bursar
from bursar.core.topology.request import TopologyRequest
from bursar.core.topology.result import MissReason, TopologyMiss
from bursar.core.topology.tree import Leaf, TopologyTree
from bursar.model.jobs.job import SliceLayer
from tests.oracle.answer_quota import keys, note_unread
from tests.oracle.runner import Case

HOSTNAME = "kubernetes.io/hostname"
GATES_ON_BY_DEFAULT = {
    "TASProfileMixed": True,
    "TASMultiLayerTopology": True,
    "SkipReassignmentForPodOwnedWorkloads": True,
}
GATES_READ = (
    *GATES_ON_BY_DEFAULT,
    "ElasticJobsViaWorkloadSlicesWithTAS",
    "TASBalancedPlacement",
    "TASLeaderPodSetFeasibility",
    "TASRespectNodeAffinityPreferred",
)
GATES_WITHOUT_EFFECT = (
    # These choose how Kueue stores, caches or checks things; none moves a pod to another node.
    "ElasticJobsViaWorkloadSlices",
    "TASCacheNodeMatchResults",
    "TASCacheTopologyTree",
    "TASCachingRemainingResources",
    "TASFailedNodeReplacement",
    "TASFailedNodeReplacementFailFast",
    "TopologyAwareScheduling",
    "VectorizedResourceRequests",
)
TOLERATION = keys("key operator value effect")
EXPRESSION = keys("key op values")
ASSIGNMENT = keys("levels", domains=keys("values count"))
PODSET_KEYS = keys(
    "name count group implied requests_per_pod node_selector",
    topology=keys(
        "required preferred unconstrained slice_required slice_size",
        slice_constraints=keys("level size"),
    ),
    tolerations=TOLERATION,
    required_affinity=EXPRESSION,
    preferred_affinity=EXPRESSION,
    previous=ASSIGNMENT,
)
INPUT_KEYS = keys(
    "nodes levels flavor_node_labels",
    gates=dict.fromkeys((*GATES_READ, *GATES_WITHOUT_EFFECT)),
    tolerations=TOLERATION,
    flavor_tolerations=TOLERATION,
    podsets=PODSET_KEYS,
    non_tas_pods=keys("name node phase requests"),
    prior_usage=keys("domain count requests_per_pod"),
    existing_workload=keys("owned_by_pod unhealthy_nodes", current_assignment={"*": ASSIGNMENT}),
)
NODE_KEYS = keys("name labels allocatable ready unschedulable", taints=keys("key value effect"))
Resources = Counter[str]
Podset = dict[str, Any]


@dataclass
class World:
    """The nodes of a case, as leaves with their free resources."""

    case: Mapping[str, Any]
    tree: TopologyTree
    nodes: dict[str, list[dict[str, Any]]]
    free: dict[str, Resources]
    assumed: dict[str, Resources] = field(default_factory=lambda: defaultdict(Counter))

    @property
    def by_hostname(self) -> bool:
        return self.tree.levels[-1] == HOSTNAME

    def gate(self, name: str) -> bool:
        default = GATES_ON_BY_DEFAULT.get(name, False)
        return bool(self.case.get("gates", {}).get(name, default))

    def leaf_id(self, values: Iterable[str]) -> str:
        named = list(values)
        return named[-1] if self.by_hostname else ",".join(named)

    def assume(self, podset: Podset, assignment: KueueAssignment) -> None:
        """Subtracts what this podset uses from what later ones can use."""
        for part in assignment:
            for name, amount in per_task(podset).items():
                self.assumed[part.leaf][name] += amount * part.tasks


def answer_podsets(case: Case, fixtures: dict[str, Any]) -> str | None:
    """Compare every podset's placement with the published one."""
    given = case["input"]
    nodes = fixtures["node_sets"][given["nodes"]]
    note_unread(given, INPUT_KEYS)
    note_unread(nodes, NODE_KEYS, "nodes")
    world = build_world(given, nodes)
    placed: dict[str, KueueAssignment] = {}
    for group in grouped(given["podsets"]):
        outcome = answer_group(world, group)
        if isinstance(outcome, TopologyMiss):
            break
        placed |= outcome
    for wanted in case["expect"]["podsets"]:
        got = described(world, placed.get(wanted["name"]))
        if got != wanted.get("assignment"):
            return f"{wanted['name'] or 'podset'}: got {got}, published {wanted.get('assignment')}"
    return None


FAMILIES = {"tas_placement": answer_podsets, "tas_node_replacement": answer_podsets}


def build_world(given: Mapping[str, Any], nodes: list[dict[str, Any]]) -> World:
    """Usable nodes of the flavor, less what other pods and earlier workloads use."""
    levels = tuple(given["levels"])
    world = World(case=given, tree=TopologyTree(levels, ()), nodes={}, free={})
    flavor_labels = given.get("flavor_node_labels", {})
    paths: dict[str, tuple[str, ...]] = {}
    leaf_by_node: dict[str, str] = {}
    for node in nodes:
        labels = node.get("labels", {})
        usable = node.get("ready", True) and not node.get("unschedulable", False)
        matches = all(labels.get(key) == value for key, value in flavor_labels.items())
        if not usable or not matches or any(level not in labels for level in levels):
            continue
        path = tuple(labels[level] for level in levels)
        leaf = leaf_by_node[node["name"]] = world.leaf_id(path)
        paths.setdefault(leaf, path)
        world.nodes.setdefault(leaf, []).append(node)
        world.free.setdefault(leaf, Counter()).update(node["allocatable"])
    world.tree = TopologyTree(levels, [Leaf(id=leaf, path=path) for leaf, path in paths.items()])
    for pod in given.get("non_tas_pods", []):
        leaf = leaf_by_node.get(pod.get("node", ""), "")
        if leaf and pod.get("phase", "Running").removeprefix("Pod") not in ("Failed", "Succeeded"):
            world.free[leaf].subtract(Counter(pod.get("requests", {})) + Counter(pods=1))
    for usage in given.get("prior_usage", []):
        part = KueueDomainCount(leaf=world.leaf_id(usage["domain"]), tasks=usage["count"])
        world.assume(usage, (part,))
    return world


def grouped(podsets: list[Podset]) -> list[list[Podset]]:
    """Podsets with the same group are placed together."""
    groups: dict[str, list[Podset]] = {}
    for index, podset in enumerate(podsets):
        groups.setdefault(podset.get("group") or f"#{index}", []).append(podset)
    return list(groups.values())


def answer_group(world: World, group: list[Podset]) -> dict[str, KueueAssignment] | TopologyMiss:
    """Places one group: replaced after a lost node, resized, or new."""
    existing = world.case.get("existing_workload")
    if existing and existing.get("unhealthy_nodes"):
        return answer_lost_node(world, group, existing)
    leader, workers = leader_and_workers(group)
    if world.gate("ElasticJobsViaWorkloadSlicesWithTAS") and workers.get("previous"):
        resized = answer_resize(world, leader, workers)
        if resized is not None:
            return resized
    return answer_fresh(world, leader, workers)


def leader_and_workers(group: list[Podset]) -> tuple[Podset | None, Podset]:
    """The smaller podset of a pair is the leader; if equal, the second."""
    if len(group) == 1:
        return None, group[0]
    first, second = group[:2]
    return (first, second) if second["count"] > first["count"] else (second, first)


def answer_fresh(
    world: World, leader: Podset | None, workers: Podset
) -> dict[str, KueueAssignment] | TopologyMiss:
    request = request_for(world, workers, leaders=1 if leader else 0)
    if isinstance(request, str):
        return unspecified(request)
    counts = count_leaves(world, workers, leader)
    placed = place_as_both(world.tree, request, counts)
    if isinstance(placed, TopologyMiss):
        return placed
    return assume_both(world, leader, workers, placed)


def place_as_both(
    tree: TopologyTree, request: KueueTopologyRequest, counts: Mapping[str, LeafCounts]
) -> KueueAssignment | TopologyMiss:
    """Places like Kueue, and also like Bursar if the request needs no feature that only Kueue has."""
    theirs = place(tree, request, counts)
    only_kueue = request.leaders or request.balanced or not request.least_free
    if only_kueue or any(count.affinity for count in counts.values()):
        return theirs
    plain = TopologyRequest(
        count=request.count,
        required=request.required,
        preferred=request.preferred,
        layers=request.layers,
    )
    ours = place_as_bursar(tree, plain, {leaf: count.tasks for leaf, count in counts.items()})
    if isinstance(ours, TopologyMiss):
        assert ours == theirs
        return ours
    return tuple(KueueDomainCount(leaf=part.leaf, tasks=part.tasks) for part in ours)


def assume_both(
    world: World, leader: Podset | None, workers: Podset, placed: KueueAssignment
) -> dict[str, KueueAssignment]:
    """Split a placement into the workers' and the leader's."""
    answer = {workers["name"]: tuple(part for part in placed if part.tasks)}
    if leader:
        answer[leader["name"]] = tuple(
            KueueDomainCount(leaf=part.leaf, tasks=part.leaders) for part in placed if part.leaders
        )
        world.assume(leader, answer[leader["name"]])
    world.assume(workers, answer[workers["name"]])
    return answer


def answer_lost_node(
    world: World, group: list[Podset], existing: Mapping[str, Any]
) -> dict[str, KueueAssignment] | TopologyMiss:
    """Replaces the tasks of the first unhealthy node, podset by podset."""
    answer: dict[str, KueueAssignment] = {}
    for podset in group:
        current = existing.get("current_assignment", {}).get(podset["name"])
        if current is None:
            continue
        before = assignment_of(world, current)
        if existing.get("owned_by_pod") and world.gate("SkipReassignmentForPodOwnedWorkloads"):
            answer[podset["name"]] = before
            continue
        request = request_for(world, podset)
        if isinstance(request, str):
            return unspecified(request)
        unhealthy = existing["unhealthy_nodes"][0]
        lost = {
            part.leaf
            for part, domain in zip(before, current["domains"], strict=True)
            if domain["values"][-1] == unhealthy
        }
        counts = count_leaves(world, podset, None)
        revised = replace_lost(world.tree, request, before, lost, counts)
        if isinstance(revised, TopologyMiss):
            return revised
        if not revised.added:
            return unspecified(f"{podset['name']} lost nothing on {unhealthy}")
        world.assume(podset, revised.added)
        answer[podset["name"]] = revised.assignment
    return answer


def answer_resize(
    world: World, leader: Podset | None, workers: Podset
) -> dict[str, KueueAssignment] | TopologyMiss | None:
    """Keeps the previous placement and places or drops the difference; None to place anew."""
    before = assignment_of(world, workers["previous"])
    led_before: KueueAssignment = ()
    if leader and leader.get("previous"):
        led_before = assignment_of(world, leader["previous"])
    request = request_for(world, workers, leaders=1 if leader and not led_before else 0)
    if isinstance(request, str) or find_stale(world.tree, before + led_before):
        return None
    ran = sum(part.tasks for part in before)
    if request.slice_size > 1 and (ran % request.slice_size or request.count % request.slice_size):
        return None
    answer: dict[str, KueueAssignment] = {}
    if leader and led_before:
        answer[leader["name"]] = led_before
        world.assume(leader, led_before)
    if request.count <= ran:
        answer[workers["name"]] = shrink(before, request.count)
        world.assume(workers, answer[workers["name"]])
        return answer
    world.assume(workers, before)
    new_leader = leader if request.leaders else None
    grown = grow(world.tree, request, before, count_leaves(world, workers, new_leader))
    if isinstance(grown, TopologyMiss):
        return grown
    answer |= assume_both(world, new_leader, workers, grown.added)
    answer[workers["name"]] = tuple(part for part in grown.assignment if part.tasks)
    return answer


def request_for(world: World, podset: Podset, *, leaders: int = 0) -> KueueTopologyRequest | str:
    """The podset's topology request; a text if it has none."""
    topology = podset.get("topology") or {}
    layers = slice_layers(world, topology)
    anywhere = topology.get("unconstrained") or podset.get("implied") or layers
    if not (topology.get("required") or topology.get("preferred") or anywhere):
        return "no topology level is asked for"
    return KueueTopologyRequest(
        count=podset["count"],
        required=topology.get("required"),
        preferred=topology.get("preferred"),
        layers=layers,
        leaders=leaders,
        balanced=world.gate("TASBalancedPlacement"),
        least_free=world.gate("TASProfileMixed"),
    )


def slice_layers(world: World, topology: Mapping[str, Any]) -> tuple[SliceLayer, ...]:
    """Layers from either spelling; a slice level without a size gets size 0, which is rejected."""
    constraints = topology.get("slice_constraints") or []
    layers = tuple(SliceLayer(level=each["level"], size=each["size"]) for each in constraints)
    if not layers and topology.get("slice_required"):
        size = topology.get("slice_size") or 0
        layers = (SliceLayer(level=topology["slice_required"], size=size),)
    return layers if world.gate("TASMultiLayerTopology") else layers[:1]


def unspecified(text: str) -> TopologyMiss:
    return TopologyMiss(reason=MissReason.UNKNOWN_LEVEL, level=text, slices_wanted=0)


def count_leaves(world: World, podset: Podset, leader: Podset | None) -> dict[str, LeafCounts]:
    """How many pods of the podset fit on each usable leaf, without and with the leader."""
    counts: dict[str, LeafCounts] = {}
    requests = per_task(podset)
    for leaf, free in world.free.items():
        if world.by_hostname and not admits(world, world.nodes[leaf][0], podset):
            continue
        remaining = Counter(free)
        remaining.subtract(world.assumed.get(leaf, Counter()))
        tasks = count_in(requests, remaining)
        leaders = min(1, count_in(per_task(leader), remaining)) if leader else 0
        if leader and not hosts(world, leaf, leader):
            leaders = 0
        if leader and leaders:
            remaining.subtract(per_task(leader))
        counts[leaf] = LeafCounts(
            tasks=tasks,
            tasks_with_leader=count_in(requests, remaining),
            leaders=leaders,
            affinity=affinity_score(world, leaf, podset),
        )
    return counts


def hosts(world: World, leaf: str, leader: Podset) -> bool:
    """A leader may use its workers' nodes; its own selectors count only with the gate on."""
    if not world.by_hostname or not world.gate("TASLeaderPodSetFeasibility"):
        return True
    return admits(world, world.nodes[leaf][0], leader)


def per_task(podset: Mapping[str, Any]) -> Resources:
    """A pod also uses one of the node's pod slots."""
    requests: Resources = Counter(podset.get("requests_per_pod", {}))
    requests["pods"] += 1
    return requests


def count_in(requests: Resources, free: Resources) -> int:
    """How often a request fits; resources not requested do not matter."""
    return min(max(0, free[name] // amount) for name, amount in requests.items() if amount)


def admits(world: World, node: Mapping[str, Any], podset: Podset) -> bool:
    """Taints, node selector and required affinity."""
    tolerations = [
        *podset.get("tolerations", []),
        *world.case.get("tolerations", []),
        *world.case.get("flavor_tolerations", []),
    ]
    for taint in node.get("taints", []):
        blocks = taint.get("effect") in ("NoSchedule", "NoExecute")
        if blocks and not any(tolerates(toleration, taint) for toleration in tolerations):
            return False
    labels = node.get("labels", {})
    selector = podset.get("node_selector", {})
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    terms = podset.get("required_affinity")
    return terms is None or any(matches_term(node, term) for term in terms)


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    key, effect = toleration.get("key", ""), toleration.get("effect", "")
    if effect and effect != taint.get("effect"):
        return False
    if key and key != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(key) and toleration.get("value", "") == taint.get("value", "")


def affinity_score(world: World, leaf: str, podset: Podset) -> int:
    """The weights of the preferred terms a node matches; nodes only, and only with the gate on."""
    if not world.by_hostname or not world.gate("TASRespectNodeAffinityPreferred"):
        return 0
    node = world.nodes[leaf][0]
    terms = podset.get("preferred_affinity", [])
    return sum(weight for weight, term in terms if matches_term(node, term))


def matches_term(node: Mapping[str, Any], term: list[dict[str, Any]]) -> bool:
    """All expressions of a term; an empty term matches nothing."""
    return bool(term) and all(matches_expression(node, expression) for expression in term)


def matches_expression(node: Mapping[str, Any], expression: Mapping[str, Any]) -> bool:
    labels = {"metadata.name": node["name"], **node.get("labels", {})}
    value = labels.get(expression["key"])
    values = [str(each) for each in expression.get("values", [])]
    match expression["op"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return is_whole(value, values[0]) and int(value) > int(values[0])
        case "Lt":
            return is_whole(value, values[0]) and int(value) < int(values[0])
    raise ValueError(f"unknown operator {expression['op']}")


def is_whole(*texts: str | None) -> bool:
    """Only integers can be compared; any other value does not match."""
    return all(text is not None and text.removeprefix("-").isdigit() for text in texts)


def assignment_of(world: World, published: Mapping[str, Any]) -> KueueAssignment:
    return tuple(
        KueueDomainCount(leaf=world.leaf_id(domain["values"]), tasks=domain["count"])
        for domain in published["domains"]
    )


def described(world: World, assignment: KueueAssignment | None) -> dict[str, Any] | None:
    """Our assignment in the format of the case; None if there is none."""
    if assignment is None:
        return None
    levels = [HOSTNAME] if world.by_hostname else list(world.tree.levels)
    domains = [
        {
            "values": [part.leaf] if world.by_hostname else part.leaf.split(","),
            "count": part.tasks,
        }
        for part in assignment
    ]
    return {"levels": levels, "domains": domains}
