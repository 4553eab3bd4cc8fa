"""The books always balance, charge everything once, and can be restored."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bursar.accounting.ledger.books import Books
from bursar.accounting.ledger.entry import QUEUE_KINDS, AccountKind, LedgerEntry, kind_of
from bursar.accounting.ledger.ledger import Ledger
from bursar.accounting.ledger.meter import Meter
from bursar.accounting.ledger.meter_snapshot import (
    MeterSnapshot,
    meter_from_snapshot,
    meter_to_snapshot,
)
from bursar.codec import from_text, to_text
from bursar.core.quota.charge import gpu_milli_held
from bursar.model import event as ev
from bursar.model.units import HOUR_MS
from tests.accounting.ledger.plain_split import plain_costs
from tests.properties.random_steps import ANY_SCRIPT, Script, StepRunner
from tests.support.book_views import (
    by_day,
    by_gpu_model,
    by_hour,
    by_job,
    by_market,
    by_pool,
    by_queue,
    replay,
)

SPENT = frozenset(AccountKind) - {AccountKind.CAPACITY}
AFTER_MS = 90 * 60_000
"""How long after the last event the books are closed: in the middle of an hour."""


def log_of(script: Script) -> tuple[list[ev.LoggedEvent], int]:
    """The log, beginning with the declaration, and the time at which the books are closed."""
    runner = StepRunner(script.world).run(script)
    world = script.world
    declared = ev.FleetDeclared(
        at_ms=0, fleet=world.fleet, tenants=tuple(world.tenants), policies=world.policies
    )
    return [declared, *runner.harness.log], runner.now_ms + AFTER_MS


def entries_of(log: list[ev.LoggedEvent], until_ms: int) -> list[LedgerEntry]:
    found: list[LedgerEntry] = []
    meter = Meter(found.append)
    for event in log:
        meter.apply(event)
    meter.close(until_ms)
    return found


def rows(books: Books) -> tuple[object, object]:
    return books.hour_rows(), books.job_rows()


@given(ANY_SCRIPT)
def test_debits_equal_credits_and_all_views_agree(script: Script) -> None:
    log, until_ms = log_of(script)
    books = replay(log, until_ms)
    assert books.trial_balance() == 0
    fleet = books.fleet_micro_usd()
    assert sum(books.by_kind()[kind] for kind in SPENT if kind in books.by_kind()) == fleet
    for view in (by_hour, by_day, by_pool, by_market, by_gpu_model):
        assert sum(view(books, SPENT).values()) == fleet
    used = sum(by_queue(books).values())
    assert sum(by_job(books).values()) == used == sum(by_day(books, QUEUE_KINDS).values())
    capacity = {key: -usd for key, usd in by_hour(books, {AccountKind.CAPACITY}).items()}
    assert by_hour(books, SPENT) == capacity


@given(ANY_SCRIPT)
def test_postings_sum_to_the_node_cost_and_jobs_pay_their_share(script: Script) -> None:
    log, until_ms = log_of(script)
    declared = log[0]
    assert isinstance(declared, ev.FleetDeclared)
    holders, nodes, stretches = plain_costs(declared, log[1:], until_ms)  # type: ignore[arg-type]
    by_node: dict[str, int] = defaultdict(int)
    by_holder: dict[str, int] = defaultdict(int)
    for entry in entries_of(log, until_ms):
        assert entry.micro_usd >= 0 and entry.from_ms < entry.to_ms <= until_ms
        assert entry.from_ms // HOUR_MS == (entry.to_ms - 1) // HOUR_MS
        if kind_of(entry.credit) is not AccountKind.CAPACITY:
            continue
        by_node[entry.node] += entry.micro_usd
        kind = kind_of(entry.debit)
        if kind in (AccountKind.USAGE, AccountKind.FOREIGN):
            by_holder[entry.job_id or "(foreign)"] += entry.micro_usd
    for node, cost in nodes.items():
        assert by_node[node] == cost.numerator // cost.denominator
    rounding = 2 + (stretches + until_ms // HOUR_MS) * len(nodes)
    for holder, cost in holders.items():
        assert abs(by_holder[holder] - cost) <= rounding


@given(ANY_SCRIPT)
def test_every_millisecond_of_every_attempt_is_counted_once(script: Script) -> None:
    log, until_ms = log_of(script)
    models = {pool.name: pool.gpu_model for pool in script.world.fleet.pools}
    expected: dict[str, int] = defaultdict(int)
    live: dict[str, tuple[int, int, set[str]]] = {}
    state = StepRunner(script.world).state
    for event in log[1:]:
        before = {record.id for record in state.live()}
        state.apply(event)  # type: ignore[arg-type]
        after = {record.id: record for record in state.live()}
        for job_id in after.keys() - before:
            place = after[job_id].placement
            assert place is not None
            milli = sum(gpu_milli_held(task, models[place.pool]) for task in place.all_tasks)
            live[job_id] = (event.at_ms, milli, {task.node for task in place.all_tasks})
        for job_id in before - after.keys():
            began_ms, milli, _ = live.pop(job_id)
            expected[job_id] += milli * (event.at_ms - began_ms)
    for job_id, (began_ms, milli, _) in live.items():
        expected[job_id] += milli * (until_ms - began_ms)
    held: dict[str, int] = defaultdict(int)
    for row in replay(log, until_ms).job_rows():
        held[row.job_id] += row.gpu_milli_ms
    assert {k: v for k, v in held.items() if v} == {k: v for k, v in expected.items() if v}


@given(ANY_SCRIPT)
def test_postings_of_a_job_have_no_gap_or_overlap(script: Script) -> None:
    log, until_ms = log_of(script)
    spans: dict[tuple[str, str, int], list[tuple[int, int]]] = defaultdict(list)
    for entry in entries_of(log, until_ms):
        if kind_of(entry.debit) is AccountKind.USAGE:
            key = (entry.node, entry.job_id, entry.attempt)
            spans[key].append((entry.from_ms, entry.to_ms))
    for found in spans.values():
        assert all(before[1] <= after[0] for before, after in pairwise(sorted(found)))


@given(ANY_SCRIPT, st.integers(0, 10_000))
def test_a_ledger_restored_in_the_middle_ends_with_the_same_books(script: Script, cut: int) -> None:
    log, until_ms = log_of(script)
    whole = replay(log, until_ms)
    assert rows(replay(log, until_ms)) == rows(whole)
    first = Ledger()
    for event in log[: cut % len(log)]:
        first.apply(event)
    plain = to_text(meter_to_snapshot(first.meter))
    books = Books().restore(first.books.to_snapshot())
    second = meter_from_snapshot(from_text(MeterSnapshot, plain), books.post)
    for event in log[cut % len(log) :]:
        second.apply(event)
    second.close(until_ms)
    assert rows(books) == rows(whole)


@given(ANY_SCRIPT, st.integers(0, 10_000))
def test_reading_the_books_changes_nothing(script: Script, when: int) -> None:
    log, until_ms = log_of(script)
    ledger = Ledger()
    for number, event in enumerate(log):
        ledger.apply(event)
        if number == when % len(log):
            now = ledger.at(event.at_ms + AFTER_MS)
            assert now.trial_balance() == 0
            assert rows(now) == rows(replay(log[: number + 1], event.at_ms + AFTER_MS))
    ledger.meter.close(until_ms)
    assert rows(ledger.books) == rows(replay(log, until_ms))


@given(ANY_SCRIPT, st.integers(0, 10_000), st.sampled_from((0, 500, 3_000)))
def test_a_price_change_does_not_change_earlier_usage(script: Script, cut: int, milli: int) -> None:
    log, until_ms = log_of(script)
    index = 1 + cut % len(log)
    at_ms = max(event.at_ms for event in log[:index])
    changes: list[ev.LoggedEvent] = [
        ev.PriceChanged(
            at_ms=at_ms,
            pool=pool.name,
            node_micro_usd_per_hour=pool.node_micro_usd_per_hour * milli // 1_000 + 7,
        )
        for pool in script.world.fleet.pools
    ]
    before = entries_of(log[:index], at_ms)
    repriced = entries_of([*log[:index], *changes, *log[index:]], until_ms)
    early = [entry for entry in repriced if entry.to_ms <= at_ms and is_metered(entry)]
    assert money(early) == money([entry for entry in before if is_metered(entry)])


def is_metered(entry: LedgerEntry) -> bool:
    return kind_of(entry.credit) is AccountKind.CAPACITY


def money(entries: list[LedgerEntry]) -> dict[tuple[str, str, str], int]:
    found: dict[tuple[str, str, str], int] = defaultdict(int)
    for entry in entries:
        if entry.micro_usd:
            found[entry.node, entry.debit, entry.job_id] += entry.micro_usd
    return found


@given(ANY_SCRIPT, st.data())
def test_simultaneous_events_of_different_nodes_commute(
    script: Script, data: st.DataObject
) -> None:
    log, until_ms = log_of(script)
    shuffled = list(log)
    for index in range(1, len(shuffled) - 1):
        if independent(shuffled[index], shuffled[index + 1], log) and data.draw(st.booleans()):
            pair = shuffled[index : index + 2]
            shuffled[index : index + 2] = reversed(pair)
    assert rows(replay(shuffled, until_ms)) == rows(replay(log, until_ms))


def independent(one: ev.LoggedEvent, two: ev.LoggedEvent, log: list[ev.LoggedEvent]) -> bool:
    """Whether two events are simultaneous, of different jobs and on different nodes."""
    if one.at_ms != two.at_ms:
        return False
    jobs = [getattr(event, "job_id", None) for event in (one, two)]
    nodes = [nodes_of(event, log) for event in (one, two)]
    return jobs[0] != jobs[1] and all(nodes) and not nodes[0] & nodes[1]


def nodes_of(event: ev.LoggedEvent, log: list[ev.LoggedEvent]) -> set[str]:
    """The nodes the event's job ever ran on, or the event's own node."""
    job_id = getattr(event, "job_id", None)
    if job_id is None:
        node = getattr(event, "node", "")
        if isinstance(event, ev.NodeLost | ev.NodeAdded):
            return set()
        return {node} if isinstance(node, str) and node else set()
    return {
        task.node
        for other in log
        if isinstance(other, ev.AttemptAssigned | ev.PlacementClaimed) and other.job_id == job_id
        for task in other.placement.all_tasks
    }


@given(ANY_SCRIPT, st.lists(st.integers(0, 40 * 60_000), min_size=1, max_size=8))
def test_late_reports_are_never_counted_twice_or_backwards(
    script: Script, late_ms: list[int]
) -> None:
    log, until_ms = log_of(script)
    events = [
        replace(event, at_ms=max(0, event.at_ms - late_ms[number % len(late_ms)]))
        for number, event in enumerate(log)
    ]
    books = Books()
    spans: dict[tuple[str, str, str], list[tuple[int, int]]] = defaultdict(list)
    meter = Meter(books.post)
    for event in events:
        meter.apply(event)
    meter.close(until_ms)
    assert books.trial_balance() == 0
    for entry in entries_of(events, until_ms):
        assert entry.micro_usd >= 0 and entry.from_ms < entry.to_ms
        assert all(number >= 0 for number in entry.volume)
        if is_metered(entry):
            spans[entry.node, entry.debit, entry.job_id].append((entry.from_ms, entry.to_ms))
    for found in spans.values():
        assert all(before[1] <= after[0] for before, after in pairwise(sorted(found)))


@given(ANY_SCRIPT, st.integers(0, 10_000))
def test_the_same_declaration_again_changes_no_balance(script: Script, cut: int) -> None:
    """Lost nodes stay lost and added nodes stay; prices that change back only close postings."""
    log, until_ms = log_of(script)
    index = 1 + cut % len(log)
    declared = log[0]
    assert isinstance(declared, ev.FleetDeclared)
    meter = Meter(list[LedgerEntry]().append)
    for event in log[:index]:
        meter.apply(event)
    fleet = replace(declared.fleet, pools=tuple(meter.pools.values()))
    again = replace(declared, at_ms=meter.now_ms, fleet=fleet)
    books = replay([*log[:index], again, *log[index:]], until_ms)
    assert rows(books) == rows(replay(log, until_ms))
