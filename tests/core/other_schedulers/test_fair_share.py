"""Decayed usage, the two fair-share rankings of Slurm, and Kueue's admission fair sharing."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.other_schedulers.kueue_admission_share import (
    AdmissionShareRules,
    AdmissionShares,
    WaitingJob,
    in_queue_order,
    sample,
)
from bursar.core.other_schedulers.slurm_classic_share import classic_shares
from bursar.core.other_schedulers.slurm_fair_tree import (
    FairTreeKeys,
    ShareHolder,
    ShareTree,
    rank_fair_tree,
    share_tree_of,
)
from bursar.core.state.tenant_usage import Decay, TenantUsage, UsageAccount

HOUR_MS = 3_600_000
PARENTS = {"org": None, "red": "org", "blue": "org", "r1": "red", "r2": "red", "b1": "blue"}


def account(half_life_ms: int | None) -> UsageAccount:
    return UsageAccount(Decay(half_life_ms))


def running_for(hours: float, half_life_ms: int | None) -> float:
    one = account(half_life_ms)
    one.change_rate(6, 0)
    return one.value_at(round(hours * HOUR_MS))


def settled_after(hours: float) -> float:
    one = account(HOUR_MS)
    one.add(1_000, 0)
    return one.value_at(round(hours * HOUR_MS))


USAGE: dict[str, tuple[Callable[[], float], float]] = {
    "without a half-life usage is rate times time": (
        lambda: running_for(2, None),
        12 * HOUR_MS,
    ),
    "with half-life 0 only what runs now counts": (lambda: running_for(2, 0), 6),
    "a steady rate tends to the rate times the mean life": (
        lambda: running_for(100, HOUR_MS),
        6 * HOUR_MS / log(2),
    ),
    "one half-life of a steady rate is half of that": (
        lambda: running_for(1, HOUR_MS),
        3 * HOUR_MS / log(2),
    ),
    "history halves in a half-life": (lambda: settled_after(1), 500),
    "history halves again in the next": (lambda: settled_after(2), 250),
}


@pytest.mark.parametrize(("found", "expected"), USAGE.values(), ids=USAGE.keys())
def test_usage(found: Callable[[], float], expected: float) -> None:
    assert found() == pytest.approx(expected, rel=1e-12)


def test_a_negative_half_life_is_refused() -> None:
    with pytest.raises(ValueError, match="no history"):
        Decay(-1)


changes = st.lists(st.tuples(st.integers(0, 50_000), st.integers(-20, 20)), min_size=1, max_size=12)
half_lives = st.integers(500, 200_000)


@given(changes=changes, half_life_ms=half_lives, tail_ms=st.integers(0, 50_000))
def test_usage_is_the_integral_of_the_decayed_rate(
    changes: list[tuple[int, int]], half_life_ms: int, tail_ms: int
) -> None:
    """Compared with Simpson's rule over every interval of constant rate."""
    one = account(half_life_ms)
    changes.sort()
    end_ms = changes[-1][0] + tail_ms
    expected, rate = 0.0, 0
    stops = [*(at for at, _ in changes[1:]), end_ms]
    for (at_ms, delta), until_ms in zip(changes, stops, strict=True):
        one.change_rate(delta, at_ms)
        rate += delta
        expected += rate * decayed_time(at_ms, until_ms, end_ms, half_life_ms)
    assert one.value_at(end_ms) == pytest.approx(expected, rel=1e-6, abs=1e-3)


def decayed_time(from_ms: int, until_ms: int, end_ms: int, half_life_ms: int) -> float:
    """Simpson's rule for the integral of 2^(-(end - t) / half-life) between two times."""
    steps = 2 * max(8, (until_ms - from_ms) // half_life_ms * 16)
    width = (until_ms - from_ms) / steps
    heights = [0.5 ** ((end_ms - from_ms - i * width) / half_life_ms) for i in range(steps + 1)]
    inner = 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2])
    return float(heights[0] + inner + heights[-1]) * width / 3


@given(changes=changes, half_life_ms=half_lives | st.none(), data=st.data())
def test_neither_queries_nor_late_reports_change_usage(
    changes: list[tuple[int, int]], half_life_ms: int | None, data: st.DataObject
) -> None:
    in_order, late, asked = (account(half_life_ms) for _ in range(3))
    for at_ms, delta in sorted(changes):
        in_order.change_rate(delta, at_ms)
        asked.change_rate(0, max(at_ms - 7, 0))
        asked.change_rate(delta, at_ms)
    for at_ms, delta in data.draw(st.permutations(changes)):
        late.change_rate(delta, at_ms)
    expected = in_order.value_at(90_000)
    scale = sum(abs(delta) for _, delta in changes) * 90_000
    assert late.value_at(90_000) == pytest.approx(expected, abs=1e-9 * scale)
    assert asked.value_at(90_000) == pytest.approx(expected, abs=1e-9 * scale)


@given(
    jobs=st.lists(
        st.tuples(
            st.sampled_from(["r1", "r2", "b1"]),
            st.integers(1, 10**12),
            st.integers(0, 10**6),
            st.integers(1, 10**6),
        ),
        max_size=20,
    )
)
def test_a_tenant_has_the_usage_of_its_children_and_ends_at_exactly_zero(
    jobs: list[tuple[str, int, int, int]],
) -> None:
    usage = TenantUsage(PARENTS, HOUR_MS)
    for tenant, weight, at_ms, run_ms in jobs:
        usage.start(tenant, weight, at_ms)
        usage.stop(tenant, weight, at_ms + run_ms)
    assert all(usage.rate(tenant) == 0 for tenant in PARENTS)
    leaves = sum(usage.usage(tenant, 3 * 10**6) for tenant in ("r1", "r2", "b1"))
    assert usage.usage("org", 3 * 10**6) == pytest.approx(leaves)


def test_running_jobs_count_ahead_so_a_burst_counts_at_once() -> None:
    usage = TenantUsage(PARENTS, HOUR_MS)
    for _ in range(100):
        usage.start("r1", 5, 1_000)
    assert usage.usage("r1", 1_000) == 0
    assert usage.pressure("r1", 1_000, 300_000) == 500 * 300_000
    assert usage.pressure("org", 1_000, 300_000) == 500 * 300_000
    assert usage.pressure("b1", 1_000, 300_000) == 0


def test_a_tenant_added_later_starts_without_usage() -> None:
    usage = TenantUsage(PARENTS, HOUR_MS)
    usage.add_tenant("b2", "blue")
    usage.start("b2", 3, 10)
    assert (usage.rate("b2"), usage.rate("blue"), usage.rate("b1")) == (3, 3, 0)
    with pytest.raises(ValueError, match="already"):
        usage.add_tenant("b2", "blue")


def tree(*rows: tuple[str, str | None, int | None, bool]) -> ShareTree:
    return ShareTree(
        ShareHolder(tenant=tenant, parent=parent, shares=shares, is_user=is_user)
        for tenant, parent, shares, is_user in rows
    )


FAIR_TREES: dict[str, tuple[ShareTree, dict[str, float], dict[str, int]]] = {
    "the team that is owed more goes first, whatever its users did": (
        tree(
            ("org", None, 1, False),
            ("a", "org", 1, False),
            ("b", "org", 3, False),
            ("a1", "a", 1, True),
            ("b1", "b", 1, True),
            ("b2", "b", 1, True),
        ),
        {"org": 20, "a": 10, "b": 10, "a1": 10, "b1": 10, "b2": 0},
        {"b2": 3, "b1": 2, "a1": 1},
    ),
    "without usage everybody ties for the first place": (
        tree(
            ("org", None, 1, False),
            ("a", "org", 1, False),
            ("u1", "org", 5, True),
            ("a1", "a", 1, True),
        ),
        {"org": 0, "a": 0, "u1": 0, "a1": 0},
        {"u1": 2, "a1": 2},
    ),
    "no shares is the last place even without usage": (
        tree(("org", None, 1, False), ("u1", "org", 0, True), ("u2", "org", 1, True)),
        {"org": 9, "u1": 0, "u2": 9},
        {"u2": 2, "u1": 1},
    ),
    "a user with the parent's shares goes first, like one who used nothing": (
        tree(
            ("org", None, 1, False),
            ("u1", "org", None, True),
            ("u2", "org", 1, True),
            ("u3", "org", 1, True),
        ),
        {"org": 9, "u1": 8, "u2": 0, "u3": 1},
        {"u1": 3, "u2": 3, "u3": 1},
    ),
    "children of an account with the parent's shares compete one level up": (
        tree(
            ("org", None, 1, False),
            ("flat", "org", None, False),
            ("u1", "org", 1, True),
            ("u2", "flat", 1, True),
            ("u3", "flat", 2, True),
        ),
        {"org": 12, "flat": 8, "u1": 4, "u2": 5, "u3": 3},
        {"u3": 3, "u1": 2, "u2": 1},
    ),
    "the first user of an account that ties with a user shares that user's rank": (
        tree(
            ("org", None, 1, False),
            ("u1", "org", 1, True),
            ("a", "org", 1, False),
            ("a1", "a", 1, True),
            ("a2", "a", 1, True),
        ),
        {"org": 8, "u1": 4, "a": 4, "a1": 1, "a2": 3},
        {"u1": 3, "a1": 3, "a2": 1},
    ),
}


@pytest.mark.parametrize(("shares", "usage", "ranks"), FAIR_TREES.values(), ids=FAIR_TREES.keys())
def test_fair_tree(shares: ShareTree, usage: dict[str, float], ranks: dict[str, int]) -> None:
    found = rank_fair_tree(shares, usage)
    assert {tenant: place.rank for tenant, place in found.items()} == ranks
    assert all(place.factor == place.rank / len(ranks) for place in found.values())


def test_a_share_tree_has_one_root() -> None:
    with pytest.raises(ValueError, match="one root"):
        tree(("a", None, 1, False), ("b", None, 1, False))


@st.composite
def tenant_trees(draw: st.DrawFn) -> tuple[ShareTree, TenantUsage, list[str]]:
    """Random trees with few distinct shares and usages, so that ties are common."""
    size = draw(st.integers(2, 16))
    names = [f"t{number:02d}" for number in draw(st.permutations(range(size)))]
    parents: dict[str, str | None] = {names[0]: None}
    for number, name in enumerate(names[1:], start=1):
        parents[name] = names[draw(st.integers(0, number - 1))]
    shares = {name: draw(st.none() | st.integers(0, 3)) for name in names}
    leaves = sorted(set(names) - set(parents.values()))
    usage = TenantUsage(parents, HOUR_MS)
    for leaf in leaves:
        usage.add(leaf, draw(st.sampled_from([0, 0, 1, 2, 3, 7])), 0)
    return share_tree_of(parents, shares), usage, leaves


@given(drawn=tenant_trees())
def test_keys_sort_like_the_full_ranking(
    drawn: tuple[ShareTree, TenantUsage, list[str]],
) -> None:
    shares, usage, leaves = drawn
    ranks = rank_fair_tree(shares, {t: usage.usage(t, 0) for t in every_tenant(shares)})
    keys = FairTreeKeys(shares, usage)
    in_order = sorted(leaves, key=lambda leaf: keys.fair_tree_key(leaf, 0))
    assert in_order == list(ranks)
    places = [ranks[leaf].rank for leaf in in_order]
    assert places == sorted(places, reverse=True)
    assert places[0] == len(leaves)


@given(drawn=tenant_trees(), later_ms=st.integers(0, 30 * HOUR_MS))
def test_decay_alone_changes_no_ranking(
    drawn: tuple[ShareTree, TenantUsage, list[str]], later_ms: int
) -> None:
    shares, usage, leaves = drawn
    keys = FairTreeKeys(shares, usage)
    for leaf in leaves:
        before = keys.level_fair_shares(leaf, 0)
        assert keys.level_fair_shares(leaf, later_ms) == pytest.approx(before, rel=1e-9)


def every_tenant(shares: ShareTree) -> list[str]:
    found, todo = [], [shares.root]
    while todo:
        found.append(todo.pop())
        todo += shares.children(found[-1])
    return found


def test_a_burst_lowers_its_tenant_before_it_has_usage() -> None:
    usage = TenantUsage(PARENTS, HOUR_MS)
    keys = FairTreeKeys(share_tree_of(PARENTS, {}), usage, horizon_ms=300_000)
    assert keys.fair_tree_key("b1", 0) < keys.fair_tree_key("r1", 0)
    usage.start("b1", 1, 0)
    assert keys.fair_tree_key("r1", 0) < keys.fair_tree_key("b1", 0)
    assert keys.level_fair_shares("b1", 0) == (0.5, 1.0)
    assert keys.level_fair_shares("r1", 0) == (inf, inf)


def test_classic_shares_charge_for_siblings_and_halve_at_the_share() -> None:
    shares = tree(
        ("org", None, 1, False),
        ("a", "org", 1, False),
        ("b", "org", 1, False),
        ("a1", "a", 1, True),
        ("a2", "a", 1, True),
        ("a3", "a", None, True),
        ("b1", "b", 0, True),
    )
    usage = {"org": 100, "a": 50, "b": 50, "a1": 50, "a2": 0, "a3": 0, "b1": 50}
    found = classic_shares(shares, usage)
    assert found["a"].factor == 0.5
    assert found["a2"].effective_usage == 0.25
    assert (found["a3"].norm_shares, found["a3"].effective_usage) == (0.5, 0.5)
    assert found["b1"].factor == 0
    unused = classic_shares(shares, dict.fromkeys(every_tenant(shares), 0.0))
    assert {share.factor for share in unused.values() if share.norm_shares} == {1.0}


RULES = AdmissionShareRules(half_life_ms=10_000, sampling_interval_ms=10_000)


def test_a_nominated_job_is_charged_once_and_refunded_when_refused() -> None:
    shares = AdmissionShares(RULES, {"lq": 2})
    shares.nominate("lq", "j", {"gpu": 8})
    shares.nominate("lq", "j", {"gpu": 8})
    assert shares.usage("lq") == 2
    shares.refuse("lq", "j")
    assert shares.usage("lq") == 0
    shares.refuse("unknown", "j")


def test_admission_turns_the_charge_into_history() -> None:
    shares = AdmissionShares(RULES, {})
    shares.nominate("lq", "j", {"gpu": 8})
    shares.admit("lq", "j", {}, 0)
    assert shares.consumed("lq") == {"gpu": 4}
    shares.sample("lq", {"gpu": 8}, 10_000)
    assert shares.consumed("lq") == {"gpu": 6}
    shares.admit("lq", "other", {"gpu": 8}, 20_000)
    assert shares.consumed("lq") == {"gpu": 7}


def test_a_half_life_of_zero_resets_history_at_every_sample() -> None:
    assert sample({"gpu": 5}, {"gpu": 9}, 60_000, 0) == {}
    shares = AdmissionShares(AdmissionShareRules(half_life_ms=0), {})
    shares.restore("lq", {"gpu": 5}, 0)
    shares.nominate("lq", "j", {"gpu": 8})
    shares.admit("lq", "j", {"gpu": 8}, 60_000)
    assert shares.consumed("lq") == {"gpu": 5}
    shares.sample("lq", {"gpu": 8}, 120_000)
    assert shares.usage("lq") == 0


@pytest.mark.parametrize(
    ("fair", "order"),
    [(True, ["held", "light", "urgent", "late"]), (False, ["held", "urgent", "late", "light"])],
    ids=["history goes first where it counts", "priority goes first where it does not"],
)
def test_queue_order(fair: bool, order: list[str]) -> None:
    shares = AdmissionShares(RULES, {"a": 1, "b": 1})
    shares.restore("a", {"gpu": 3}, 0)
    jobs = [
        WaitingJob(job="late", local_queue="a", priority=5, queued_at_ms=9),
        WaitingJob(job="urgent", local_queue="a", priority=9, queued_at_ms=10),
        WaitingJob(job="light", local_queue="b", priority=1, queued_at_ms=11),
        WaitingJob(job="held", local_queue="a", priority=0, queued_at_ms=12, sticky=True),
    ]
    assert [job.job for job in in_queue_order(jobs, shares if fair else None)] == order
