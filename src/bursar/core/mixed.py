"""Place a mixed gang: its part on spot and its anchors beside it, both or neither."""

from __future__ import annotations

from collections.abc import Sequence

from bursar.core.anchors import split
from bursar.core.gang import GangPlacer
from bursar.core.search import Room, Search
from bursar.core.shape import Counts, PoolFit


def place_mixed(fit: PoolFit, counts: Counts, search: Search) -> Room | None:
    """Room in both pools, occupied; or nothing, with nothing changed.

    Where the whole gang must be in one domain, both parts must: one domain after another is tried.
    """
    fit.lacks_anchors = False
    if not any(split(fit.plan, counts)[0]):
        return None
    topology = fit.plan.shape.constraints.topology
    domains: Sequence[str | None] = (None,)
    if topology is not None and topology.required is not None:
        domains = GangPlacer(fit, search).domains()
    for domain in domains:
        room = _place_both(fit, counts, search, domain)
        if room is not None:
            return room
    return None


def _place_both(fit: PoolFit, counts: Counts, search: Search, domain: str | None) -> Room | None:
    assert fit.anchors is not None
    rest, anchored = split(fit.plan, counts)
    mark = search.journal.mark
    on_spot, steady = GangPlacer(fit, search), GangPlacer(fit.anchors, search)
    room = on_spot.place_in(rest, domain, None)
    if room is None:
        return None
    beside = steady.place_in(anchored, domain, on_spot)
    if beside is None:
        fit.lacks_anchors = True
        search.journal.roll_back(mark)
        return None
    return Room(tasks=room.tasks, cuts=room.cuts + beside.cuts, anchors=beside.tasks)
