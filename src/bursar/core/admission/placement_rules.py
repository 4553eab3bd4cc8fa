"""What a job says about topology, spread and markets must make sense on some cluster."""

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


def levels_exist(arrival: AdmissionRequest) -> Iterator[Problem]:
    levels = _all_levels(arrival)
    known = dict.fromkeys(level for those in levels for level in those)
    unknown = False
    named = levels_named(arrival.spec.constraints)
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
            fix=f"Stay within one of: {'; '.join(' > '.join(those) for those in levels)}.",
        )


def one_way_to_be_together(arrival: AdmissionRequest) -> Iterator[Problem]:
    topology, spread = arrival.spec.constraints.topology, arrival.spec.constraints.spread
    if topology is None:
        return
    if topology.required is not None and topology.preferred is not None:
        yield Problem(
            code="required-and-preferred",
            field=f"{FIELD}.preferred",
            text=f"is {topology.preferred!r} while required is {topology.required!r}",
            fix="Write one of them: required or none at all, preferred or wider.",
        )
    if spread is not None:
        yield Problem(
            code="spread-with-topology",
            field="constraints.spread",
            text="is given together with topology, which asks for the opposite",
            fix="Write spread to keep tasks apart or topology to keep them together.",
        )


def layers_nest(arrival: AdmissionRequest) -> Iterator[Problem]:
    topology = arrival.spec.constraints.topology
    if topology is None or not topology.layers:
        return
    for number, (outer, inner) in enumerate(pairwise(topology.layers), start=1):
        if outer.size % inner.size:
            yield Problem(
                code="layers-do-not-divide",
                field=f"{FIELD}.layers[{number}].size",
                text=f"is {inner.size:,}, which does not divide the {outer.size:,} around it",
                fix="Write a size that divides the one before it.",
            )
    if not _in_order_somewhere(topology, _all_levels(arrival)):
        chain = [topology.required or topology.preferred, *(one.level for one in topology.layers)]
        yield Problem(
            code="layers-do-not-nest",
            field=f"{FIELD}.layers",
            text=f"go {' > '.join(level for level in chain if level)}, not from wide to narrow",
            fix=f"Levels are {'; '.join(' > '.join(one) for one in _all_levels(arrival))}.",
        )
    size = topology.layers[0].size
    for index, group in enumerate(arrival.spec.groups):
        if isinstance(group.gpu, WholeGpus) and group.count % size:
            yield Problem(
                code="layers-do-not-divide",
                field=f"groups[{index}].count",
                text=f"is {group.count:,}, not a multiple of the outermost layer, {size:,}",
                fix=f"Write {-(-group.count // size) * size:,} tasks, or another layer size.",
            )


def _in_order_somewhere(topology: Topology, levels: list[tuple[str, ...]]) -> bool:
    """The gang's level may be that of the outermost layer; each further layer must be narrower."""
    top = topology.required or topology.preferred
    layers = [layer.level for layer in topology.layers]
    named = {*layers, *([top] if top else [])}
    holding = [those for those in levels if named <= set(those)]
    for those in holding:
        at = [those.index(level) for level in layers]
        wide_enough = top is None or those.index(top) <= at[0]
        if wide_enough and all(outer < inner for outer, inner in pairwise(at)):
            return True
    # Levels that no cluster has together are another rule's problem, not to be told twice.
    return not holding


def markets_are_named(arrival: AdmissionRequest) -> Iterator[Problem]:
    markets = arrival.spec.constraints.markets
    if not markets:
        yield Problem(
            code="no-markets",
            field="constraints.markets",
            text="is empty, so the job could run nowhere",
            fix="Write at least one of owned, reserved, on-demand, spot.",
        )
    elif len(set(markets)) < len(markets):
        yield Problem(
            code="duplicate-market",
            field="constraints.markets",
            text=f"names a market twice: {', '.join(markets)}",
            fix="Write each once, the most welcome first.",
        )


def anchors_have_a_place(arrival: AdmissionRequest) -> Iterator[Problem]:
    constraints = arrival.spec.constraints
    percent, markets = constraints.anchors_percent, constraints.markets
    if not percent or not markets or (Market.SPOT in markets and set(markets) != {Market.SPOT}):
        return
    other = "only spot, where nothing stays" if Market.SPOT in markets else "no spot"
    yield Problem(
        code="anchors-without-choice",
        field="constraints.anchors_percent",
        text=f"is {percent:,} and markets allow {other}",
        fix="Allow spot and another market (use_spot: allowed), or leave anchors_percent out.",
    )


def _all_levels(arrival: AdmissionRequest) -> list[tuple[str, ...]]:
    """The levels of each cluster, widest first; one node is always the narrowest."""
    clusters = arrival.state.clusters
    found = [(*clusters[name].topology_levels, NODE_LEVEL) for name in sorted(clusters)]
    return list(dict.fromkeys(found))


PLACE_RULES: tuple[Rule, ...] = (
    levels_exist,
    one_way_to_be_together,
    layers_nest,
    markets_are_named,
    anchors_have_a_place,
)
