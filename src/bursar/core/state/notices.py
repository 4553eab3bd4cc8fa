"""Notices that nodes will be taken away.

A notice is in force until its node is lost or restored. The cycle decides what follows from it
(``core/spot/evacuation.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bursar.core.nodes.pool import PoolState
from bursar.core.state.job_record import JobRecord
from bursar.model.event import NoticeKind, SpotNotice
from bursar.model.lifecycle import AT_WORK
from bursar.model.units import SECOND_MS

if TYPE_CHECKING:
    from bursar.core.state.fleet_state import FleetState

SHORTEST_MS = 30 * SECOND_MS
MARGIN_MS = 2 * SECOND_MS
MARGIN_PART = 5
"""An attempt must end this long before its node goes; on short notice, a fifth of the notice."""

_TERMINATE = NoticeKind.TERMINATE


def is_new_notice(known: SpotNotice | None, notice: SpotNotice) -> bool:
    """Whether a notice is new; providers repeat notices."""
    if known is None:
        return True
    if notice.kind is not _TERMINATE:
        return False
    if known.kind is not _TERMINATE:
        return True
    return _end_of(notice) < _end_of(known)


def _end_of(notice: SpotNotice) -> int:
    """A notice without a time counts as the shortest that any provider gives."""
    return notice.at_ms + SHORTEST_MS if notice.ends_at_ms is None else notice.ends_at_ms


def apply_notice(
    notice: SpotNotice, notices: dict[str, SpotNotice], pool: PoolState | None
) -> None:
    """Close a node that will be taken away; avoid one that may be."""
    if pool is None or not is_new_notice(notices.get(notice.node), notice):
        return
    notices[notice.node] = notice
    node = pool.by_id[notice.node]
    if notice.kind is _TERMINATE:
        node.up = False
    pool.set_avoided(node, notice.kind is not _TERMINATE)


def attempts_to_evacuate(state: FleetState) -> dict[str, SpotNotice]:
    """Live attempts to stop because of a notice, each with its most urgent one."""
    by_job: dict[str, SpotNotice] = {}
    for node, notice in sorted(state.notices.items()):
        if notice.kind is not _TERMINATE:
            continue
        for holder in state.node(node).holders:
            record = state.jobs.get(holder)
            if record is None or record.stop_requested or record.state not in AT_WORK:
                continue
            known = by_job.get(holder)
            if known is None or _end_of(notice) < _end_of(known):
                by_job[holder] = notice
    return dict(sorted(by_job.items()))


def is_empty(state: FleetState, node: str) -> bool:
    """Whether no attempt runs on a node, or it is lost."""
    return node not in state.pool_of_node or not state.node(node).holders


def notice_on(state: FleetState, record: JobRecord) -> SpotNotice | None:
    """The most urgent notice about the nodes of a live attempt."""
    if not state.notices or record.placement is None:
        return None
    nodes = {task.node for task in record.placement.all_tasks}
    notices = [one for node in sorted(nodes) if (one := state.notices.get(node)) is not None]
    terminations = [one for one in notices if one.kind is _TERMINATE]
    return min(terminations, key=lambda one: (_end_of(one), one.node), default=None)


def time_left_ms(notice: SpotNotice, now_ms: int) -> int:
    """How long an attempt may run on so that it ends before its node goes."""
    remaining_ms = max(0, _end_of(notice) - now_ms)
    return remaining_ms - min(MARGIN_MS, remaining_ms // MARGIN_PART)
