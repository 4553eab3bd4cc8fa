"""Notices that nodes will be taken away, and ends of attempts that are nobody's order.

A notice is in force until its node is lost or restored. What follows from one is for a cycle to say
(``evacuation.py``); here it is only known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bursar.core.line import JobRecord
from bursar.core.pool import PoolState
from bursar.model.event import NoticeKind, PreemptionCause, SpotNotice
from bursar.model.job import JobState
from bursar.model.units import SECOND_MS

if TYPE_CHECKING:
    from bursar.core.state import FleetState

MOST_UNPROMPTED = 3
"""So often in a row a job may ask to be run again, unprompted and without having saved anything newer."""

SHORTEST_MS = 30 * SECOND_MS
MARGIN_MS = 2 * SECOND_MS
MARGIN_PART = 5
"""An attempt is to be gone so long before its node, or for short notices a fifth of them."""

_TERMINATE = NoticeKind.TERMINATE
_HEARS = (JobState.STARTING, JobState.RUNNING)


# -- notices ---------------------------------------------------------------------------------------


def is_news(known: SpotNotice | None, heard: SpotNotice) -> bool:
    """Whether a notice says more than is known of its node: sources repeat themselves."""
    if known is None:
        return True
    if heard.kind is not _TERMINATE:
        return False
    if known.kind is not _TERMINATE:
        return True
    return _end_of(heard) < _end_of(known)


def _end_of(notice: SpotNotice) -> int:
    """Who does not say when gives the shortest notice that anybody gives."""
    return notice.at_ms + SHORTEST_MS if notice.ends_at_ms is None else notice.ends_at_ms


def heed(heard: SpotNotice, notices: dict[str, SpotNotice], pool: PoolState | None) -> None:
    """A node that is taken away takes nothing new; one that may be is the last to get something."""
    if pool is None or not is_news(notices.get(heard.node), heard):
        return
    notices[heard.node] = heard
    node = pool.by_id[heard.node]
    if heard.kind is _TERMINATE:
        node.up = False
    pool.set_avoided(node, heard.kind is not _TERMINATE)


def who_must_leave(state: FleetState) -> dict[str, SpotNotice]:
    """Live attempts that do not know yet that their node is taken away, each with the first to go."""
    found: dict[str, SpotNotice] = {}
    for node, notice in sorted(state.notices.items()):
        if notice.kind is not _TERMINATE:
            continue
        for holder in state.node(node).holders:
            record = state.jobs.get(holder)
            if record is None or record.told_to_stop or record.state not in _HEARS:
                continue
            known = found.get(holder)
            if known is None or _end_of(notice) < _end_of(known):
                found[holder] = notice
    return dict(sorted(found.items()))


def is_empty(state: FleetState, node: str) -> bool:
    """Whether nothing of ours runs on a node, or it is gone."""
    return node not in state.pool_of_node or not state.node(node).holders


def notice_on(state: FleetState, record: JobRecord) -> SpotNotice | None:
    """The first of its nodes to be taken away from under a live attempt."""
    if not state.notices or record.placement is None:
        return None
    nodes = {task.node for task in record.placement.all_tasks}
    found = [one for node in sorted(nodes) if (one := state.notices.get(node)) is not None]
    doomed = [one for one in found if one.kind is _TERMINATE]
    return min(doomed, key=lambda one: (_end_of(one), one.node), default=None)


def time_left_ms(notice: SpotNotice, now_ms: int) -> int:
    """How long an attempt may still go on, so that it has left before its node has."""
    left_ms = max(0, _end_of(notice) - now_ms)
    return left_ms - min(MARGIN_MS, left_ms // MARGIN_PART)


# -- ends ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How an attempt ended that did not succeed."""

    asks_again: bool
    """With the exit code that says so."""
    was_killed: bool
    """By a signal."""
    has_saved: bool = False
    """It saved something newer, so lately that its record does not know it yet."""
    was_warned: bool = False
    """It said that it was asked to stop, as lately."""


def is_newer(record: JobRecord, step: int | None) -> bool:
    """Whether saving this shows that trying again leads somewhere."""
    return step is None or record.saved_step is None or step > record.saved_step


def note_step(record: JobRecord, step: int | None) -> None:
    """Something was saved."""
    if is_newer(record, step):
        record.unprompted = 0
    if step is not None:
        record.saved_step = max(step, record.saved_step or 0)


def count_preemption(record: JobRecord, cause: PreemptionCause) -> None:
    """Only our own orders use up what a job can be made to bear, and not those for its own good."""
    if cause is PreemptionCause.ORDER and not record.moving:
        record.preemptions += 1
    elif cause is PreemptionCause.UNPROMPTED:
        record.unprompted += 1


def why_it_stopped(
    record: JobRecord, notices: Mapping[str, SpotNotice], end: Ending
) -> PreemptionCause | None:
    """What made an attempt stop that did not succeed; None when it is its own failure."""
    nodes = {task.node for task in record.placement.all_tasks} if record.placement else set()
    found = [notices[node] for node in sorted(nodes & notices.keys())]
    is_doomed = any(one.kind is _TERMINATE for one in found)
    if record.told_to_stop or record.state is JobState.CANCELLING:
        return PreemptionCause.NOTICE if is_doomed else PreemptionCause.ORDER
    if record.noticed or end.was_warned or (is_doomed and (end.asks_again or end.was_killed)):
        return PreemptionCause.NOTICE
    if end.asks_again and (end.has_saved or record.unprompted < MOST_UNPROMPTED):
        return PreemptionCause.UNPROMPTED
    return None
