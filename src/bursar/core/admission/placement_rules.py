"""Rules for topology, spread and markets: valid together on at least one cluster."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from bursar.core.admission.admission_request import AdmissionRequest, Rule
from bursar.core.admission.problem import Problem, listed, suggest
from bursar.core.nodes.pool import NODE_LEVEL
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import Constraints, Topology, WholeGpus

FIELD = "constraints.topology"


def levels_named(constraints: Constraints) -> list[tuple[str, str]]:
    """Every topology level a job names, with the field that names it."""
    named: list[tuple[str, str]] = []
    topology, spread = constraints.topology, constraints.spread
    if topology is not None:
        if topology.required is not None:
            named.append((f"{FIELD}.required", topology.required))
        if topology.preferred is not None:
            named.append((f"{FIELD}.preferred", topology.preferred))
        for index, layer in enumerate(topology.layers):
            named.append((f"{FIELD}.layers[{index}].level", layer.level))
    if spread is not None:
        named.append(("constraints.spread.level", spread.level))
    return named


def levels_exist(request: AdmissionRequest) -> Iterator[Problem]:
    levels = _all_levels(request)
    known = dict.fromkeys(level for those in levels for level in those)
    unknown = False
    named = levels_named(request.spec.constraints)
    for field, level in named:
        if level not in known:
            unknown = True
            yield Problem(
                code="unknown-topology-level",
                field=field,
                text=f"is {level!r}, a level that no cluster has",
                fix=suggest(level, known, "level"),
            )
    together = {level for _, level in named}
    if named and not unknown and not any(together <= set(those) for those in levels):
        yield Problem(
            code="levels-of-two-clusters",
            field=named[0][0],
            text=f"and the others name {listed(sorted(together))}, but no cluster has them all",
            fix=f"Use the levels of one cluster: {'; '.join(' > '.join(those) for those in levels)}.",
        )


def topology_is_consistent(request: AdmissionRequest) -> Iterator[Problem]:
    topology, spread = request.spec.constraints.topology, request.spec.constraints.spread
    if topology is None:
        return
    if topology.required is not None and topology.preferred is not None:
        yield Problem(
            code="required-and-preferred",
            field=f"{FIELD}.preferred",
            text=f"is {topology.preferred!r} while required is {topology.required!r}",
            fix="Write one of them: required is a hard limit, preferred a soft one.",
        )
    if spread is not None:
        yield Problem(
            code="spread-with-topology",
            field="constraints.spread",
            text="is given together with topology, which means the opposite",
            fix="Write spread to separate tasks, or topology to keep them together.",
        )


def layers_nest(request: AdmissionRequest) -> Iterator[Problem]:
    topology = request.spec.constraints.topology
    if topology is None or not topology.layers:
        return
    for number, (outer, inner) in enumerate(pairwise(topology.layers), start=1):
        if outer.size % inner.size:
            yield Problem(
                code="layers-do-not-divide",
                field=f"{FIELD}.layers[{number}].size",
                text=f"is {inner.size:,}, not a divisor of the enclosing layer's {outer.size:,}",
                fix="Write a size that divides the size of the layer before it.",
            )
    if not _is_nested(topology, _all_levels(request)):
        chain = [topology.required or topology.preferred, *(one.level for one in topology.layers)]
        yield Problem(
            code="layers-do-not-nest",
            field=f"{FIELD}.layers",
            text=f"are {' > '.join(level for level in chain if level)}, not from wide to narrow",
            fix=f"The levels are {'; '.join(' > '.join(one) for one in _all_levels(request))}.",
        )
    size = topology.layers[0].size
    for index, group in enumerate(request.spec.groups):
        if isinstance(group.gpu, WholeGpus) and group.count % size:
            yield Problem(
                code="layers-do-not-divide",
                field=f"groups[{index}].count",
                text=f"is {group.count:,}, not a multiple of the outermost layer, {size:,}",
                fix=f"Write {-(-group.count // size) * size:,} tasks, or another layer size.",
            )


def _is_nested(topology: Topology, levels: list[tuple[str, ...]]) -> bool:
    """Whether on some cluster each layer is narrower than the one before it.

    The gang's own level may be that of the outermost layer.
    """
    top = topology.required or topology.preferred
    layers = [layer.level for layer in topology.layers]
    named = {*layers, *([top] if top else [])}
    holding = [those for those in levels if named <= set(those)]
    for those in holding:
        at = [those.index(level) for level in layers]
        wide_enough = top is None or those.index(top) <= at[0]
        if wide_enough and all(outer < inner for outer, inner in pairwise(at)):
            return True
    # levels_exist reports levels that no cluster has together.
    return not holding


def markets_are_named(request: AdmissionRequest) -> Iterator[Problem]:
    markets = request.spec.constraints.markets
    if not markets:
        yield Problem(
            code="no-markets",
            field="constraints.markets",
            text="is empty, so no pool could run the job",
            fix="Write at least one of owned, reserved, on-demand, spot.",
        )
    elif len(set(markets)) < len(markets):
        yield Problem(
            code="duplicate-market",
            field="constraints.markets",
            text=f"names a market twice: {', '.join(markets)}",
            fix="Write each once, the preferred one first.",
        )


def anchors_have_markets(request: AdmissionRequest) -> Iterator[Problem]:
    constraints = request.spec.constraints
    percent, markets = constraints.anchors_percent, constraints.markets
    if not percent or not markets or (Market.SPOT in markets and set(markets) != {Market.SPOT}):
        return
    other = "only spot" if Market.SPOT in markets else "no spot"
    yield Problem(
        code="anchors-without-choice",
        field="constraints.anchors_percent",
        text=f"is {percent:,} and markets allow {other}",
        fix="Allow spot and another market (use_spot: allowed), or leave anchors_percent out.",
    )


def _all_levels(request: AdmissionRequest) -> list[tuple[str, ...]]:
    """The levels of each cluster, widest first; the node is always the narrowest."""
    clusters = request.state.clusters
    levels = [(*clusters[name].topology_levels, NODE_LEVEL) for name in sorted(clusters)]
    return list(dict.fromkeys(levels))


PLACEMENT_RULES: tuple[Rule, ...] = (
    levels_exist,
    topology_is_consistent,
    layers_nest,
    markets_are_named,
    anchors_have_markets,
)
