"""The quota tree, dominant shares, and starts with fewer tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.quota.dominant_share import dominant_share
from bursar.core.quota.quota_tree import UNLIMITED, BorrowLevel, QuotaNode, QuotaTree
from bursar.core.start_job import TaskGroupRange, largest_fitting_counts
from bursar.model.tenants.tenant import FlavorResource, Quota
from tests.oracle.answer_quota import INFINITE_SHARE, rounded

GPU = ("a100/owned", "gpu")
SPOT = ("a100/spot", "gpu")
CPU = ("a100/owned", "cpu")


def quotas(gpus: int | Quota | None) -> dict[FlavorResource, Quota]:
    if gpus is None:
        return {}
    return {GPU: gpus if isinstance(gpus, Quota) else Quota(nominal=gpus)}


def queue(name: str, parent: str | None, gpus: int | Quota | None = 0) -> QuotaNode:
    return QuotaNode(name=name, parent=parent, quotas=quotas(gpus), is_queue=True)


def team(name: str, parent: str | None = None, gpus: int | Quota | None = None) -> QuotaNode:
    return QuotaNode(name=name, parent=parent, quotas=quotas(gpus), is_queue=False)


@dataclass(frozen=True, kw_only=True)
class AvailableCase:
    nodes: list[QuotaNode]
    used: Mapping[str, int] = field(default_factory=dict)
    available: Mapping[str, int]
    potential: Mapping[str, int] = field(default_factory=dict)


ROOMS = {
    "a queue alone has its nominal quota less what it uses": AvailableCase(
        nodes=[queue("q", None, 8)], used={"q": 3}, available={"q": 5}, potential={"q": 8}
    ),
    "a queue that uses more than it owns has nothing left, not less than nothing": AvailableCase(
        nodes=[queue("q", None, 2)], used={"q": 3}, available={"q": 0}, potential={"q": 2}
    ),
    "neighbours lend all they do not use": AvailableCase(
        nodes=[team("lab"), queue("a", "lab", 4), queue("b", "lab", 4)],
        used={"b": 1},
        available={"a": 7, "b": 7},
        potential={"a": 8, "b": 8},
    ),
    "a tenant above may own quota that no queue owns": AvailableCase(
        nodes=[team("lab", gpus=5), queue("a", "lab", 4)],
        used={"a": 6},
        available={"a": 3, "lab": 3},
        potential={"a": 9},
    ),
    "a borrowing limit bounds what is taken from above": AvailableCase(
        nodes=[
            team("lab"),
            queue("a", "lab", Quota(nominal=4, borrowing_limit=2)),
            queue("b", "lab", 9),
        ],
        used={"a": 5},
        available={"a": 1, "b": 8},
        potential={"a": 6, "b": 13},
    ),
    "a lending limit keeps the rest at home": AvailableCase(
        nodes=[
            team("lab"),
            queue("a", "lab", Quota(nominal=6, lending_limit=2)),
            queue("b", "lab", 1),
        ],
        used={"a": 3},
        available={"a": 4, "b": 3},
        potential={"a": 7, "b": 3},
    ),
    "what the unlendable quota covers is not charged to the parent": AvailableCase(
        nodes=[
            team("lab"),
            queue("a", "lab", Quota(nominal=6, lending_limit=2)),
            queue("b", "lab", 0),
        ],
        used={"a": 5},
        available={"a": 1, "b": 1},
    ),
    "a borrowing limit halfway up holds for everyone below": AvailableCase(
        nodes=[
            team("org", gpus=100),
            team("lab", "org", Quota(nominal=0, borrowing_limit=3)),
            queue("a", "lab", 4),
            queue("b", "lab", 4),
        ],
        used={"b": 6},
        available={"a": 5, "b": 5},
        potential={"a": 11},
    ),
    "unlimited stays unlimited, whatever is used of it": AvailableCase(
        nodes=[team("lab", gpus=10**21), queue("a", "lab", 1)],
        used={"a": 7},
        available={"a": UNLIMITED, "lab": UNLIMITED},
        potential={"a": UNLIMITED},
    ),
    "of unlimited quota, no more is lent than the lending limit": AvailableCase(
        nodes=[
            team("lab"),
            queue("a", "lab", Quota(nominal=UNLIMITED, lending_limit=5)),
            queue("b", "lab", 1),
        ],
        used={"a": 50},
        available={"a": UNLIMITED, "b": 6},
        potential={"b": 6},
    ),
    "a queue without any quota lives on what its team owns": AvailableCase(
        nodes=[team("lab", gpus=3), queue("a", "lab", None)],
        used={"a": 2},
        available={"a": 1},
        potential={"a": 3},
    ),
}


@pytest.mark.parametrize("sentence", ROOMS)
def test_available_quota(sentence: str) -> None:
    case = ROOMS[sentence]
    tree = QuotaTree(case.nodes)
    for name, amount in case.used.items():
        tree.add_usage(name, {GPU: amount})
    assert {name: tree.available(name, GPU) for name in case.available} == case.available
    assert {name: tree.potential(name, GPU) for name in case.potential} == case.potential
    for name, amount in case.available.items():
        assert tree.fits(name, {GPU: amount})
        assert amount == UNLIMITED or not tree.fits(name, {GPU: amount + 1})
    for name, amount in case.used.items():
        tree.remove_usage(name, {GPU: amount})
    assert all(tree.usage(name, GPU) == 0 for name in tree.names())


def test_a_request_fits_only_if_all_its_resources_fit() -> None:
    tree = QuotaTree(
        [
            QuotaNode(
                name="q",
                parent=None,
                quotas={GPU: Quota(nominal=8), CPU: Quota(nominal=4)},
                is_queue=True,
            )
        ]
    )
    assert tree.fits("q", {GPU: 8, CPU: 4, SPOT: 0})
    assert not tree.fits("q", {GPU: 8, CPU: 5})
    assert not tree.fits("q", {GPU: 1, SPOT: 1})


THREE_DEEP = [
    team("org", gpus=10),
    team("lab", "org", 4),
    team("rest", "org"),
    queue("a", "lab", 2),
    queue("b", "rest", 1),
]

BORROW_LEVELS = {
    "within its own quota a queue borrows nothing": (2, BorrowLevel(0, True)),
    "what the team owns is one level up": (6, BorrowLevel(1, True)),
    "what only the whole organisation owns is two levels up": (17, BorrowLevel(2, False)),
    "more than anyone owns is the root's height": (18, BorrowLevel(2, False)),
}


@pytest.mark.parametrize("sentence", BORROW_LEVELS)
def test_borrow_level(sentence: str) -> None:
    amount, level = BORROW_LEVELS[sentence]
    assert QuotaTree(THREE_DEEP).borrow_level("a", GPU, amount) == level


def test_unlendable_quota_is_used_without_borrowing_from_above() -> None:
    own = queue("a", "lab", Quota(nominal=4, lending_limit=1))
    tree = QuotaTree([team("org", gpus=9), team("lab", "org", 2), own])
    assert tree.borrow_level("a", GPU, 6) == BorrowLevel(1, True)
    assert tree.borrow_level("a", GPU, 7) == BorrowLevel(2, False)


def test_a_single_queue_cannot_reclaim() -> None:
    tree = QuotaTree([queue("q", None, 1)])
    assert tree.borrow_level("q", GPU, 1) == BorrowLevel(0, False)
    assert tree.borrow_level("q", GPU, 9) == BorrowLevel(0, False)


def test_the_tree_can_be_traversed() -> None:
    tree = QuotaTree(THREE_DEEP)
    below = [name for name in tree.names() if tree.parent(name) == "org"]
    assert below == ["lab", "rest"]
    assert list(tree.ancestors("a")) == ["lab", "org"]
    assert (tree.parent("a"), tree.parent("org")) == ("lab", None)
    assert (tree.root("a"), tree.root("org")) == ("org", "org")
    assert tree.subtree_quota("lab", GPU) == 6
    assert tree.nominal("lab", GPU) == 4


def test_borrowing_queues_are_tracked() -> None:
    tree = QuotaTree([team("lab"), queue("a", "lab", 2), queue("b", "lab", 2), queue("c", None, 1)])
    tree.add_usage("c", {GPU: 5})
    tree.add_usage("a", {GPU: 2})
    assert tree.borrowing_queues("b", [GPU]) == []
    tree.add_usage("a", {GPU: 1, CPU: 1})
    assert tree.borrowing_queues("b", [GPU]) == ["a"]
    assert tree.borrowing_queues("b", [CPU]) == ["a"]
    tree.remove_usage("a", {GPU: 1})
    assert tree.borrowing_queues("b", [GPU]) == []


BROKEN = {
    "names are unique": ([team("x"), queue("x", None)], "two tenants are called 'x'"),
    "every parent is declared": ([queue("q", "lab")], "lab > q: the parent 'lab' is not declared"),
    "queues are leaves": ([queue("q", None), queue("r", "q")], "q > r: 'q' is a queue"),
    "a cycle is shown as the path it is": (
        [team("x", "z"), team("y", "x"), team("z", "y"), queue("q", "x")],
        "cycle: x > y > z > x",
    ),
    "a tenant may not be its own parent": ([team("x", "x")], "cycle: x > x"),
}


@pytest.mark.parametrize("sentence", BROKEN)
def test_invalid_trees_are_refused(sentence: str) -> None:
    nodes, message = BROKEN[sentence]
    with pytest.raises(ValueError, match=message):
        QuotaTree(nodes)


def test_only_queues_hold_jobs() -> None:
    with pytest.raises(ValueError, match="'lab' is not a queue"):
        QuotaTree([team("lab", gpus=4)]).add_usage("lab", {GPU: 1})


def test_a_queue_cannot_release_more_than_it_holds() -> None:
    tree = QuotaTree([queue("q", None, 4)])
    tree.add_usage("q", {GPU: 2, CPU: 1})
    with pytest.raises(ValueError, match="does not hold 3"):
        tree.remove_usage("q", {CPU: 1, GPU: 3})
    assert (tree.usage("q", GPU), tree.usage("q", CPU)) == (2, 1)


limits = st.none() | st.integers(0, 6)


@st.composite
def trees(draw: st.DrawFn) -> list[QuotaNode]:
    """Up to five tenants and five queues under random parents, with random limits."""
    names: list[str] = []
    nodes: list[QuotaNode] = []
    for index in range(draw(st.integers(0, 5)) + draw(st.integers(1, 5))):
        is_queue = index > 0 and draw(st.booleans())
        above = draw(st.sampled_from([None, *names])) if names else None
        quota = Quota(
            nominal=draw(st.integers(0, 8)),
            borrowing_limit=draw(limits) if above else None,
            lending_limit=draw(limits) if above else None,
        )
        name = f"n{index}"
        nodes.append(
            (queue if is_queue else team)(name, above, draw(st.sampled_from([quota, None])))
        )
        if not is_queue:
            names.append(name)
    return [*nodes, queue("last", names[-1], 1)]


class ByDefinition:
    """The published definitions, computed from scratch at every call."""

    def __init__(self, nodes: list[QuotaNode], used: Mapping[str, int]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.used = used

    def quota(self, name: str) -> Quota:
        return self.nodes[name].quotas.get(GPU, Quota())

    def below(self, name: str) -> list[str]:
        return [node.name for node in self.nodes.values() if node.parent == name]

    def subtree(self, name: str) -> int:
        lent = sum(self.subtree(child) - self.local(child) for child in self.below(name))
        return self.quota(name).nominal + lent

    def local(self, name: str) -> int:
        limit = self.quota(name).lending_limit
        return 0 if limit is None else max(0, self.subtree(name) - limit)

    def usage(self, name: str) -> int:
        spilled = sum(max(0, self.usage(child) - self.local(child)) for child in self.below(name))
        return self.used.get(name, 0) + spilled

    def available(self, name: str) -> int:
        above, limit = self.nodes[name].parent, self.quota(name).borrowing_limit
        if above is None:
            return self.subtree(name) - self.usage(name)
        from_above = self.available(above)
        if limit is not None:
            stored = self.subtree(name) - self.local(name)
            taken = max(0, self.usage(name) - self.local(name))
            from_above = min(from_above, stored - taken + limit)
        return max(0, self.local(name) - self.usage(name)) + from_above


@given(
    nodes=trees(), changes=st.lists(st.tuples(st.integers(0, 9), st.integers(-9, 9)), max_size=9)
)
def test_incremental_usage_matches_the_definitions(
    nodes: list[QuotaNode], changes: list[tuple[int, int]]
) -> None:
    tree = QuotaTree(nodes)
    queues = [node.name for node in nodes if node.is_queue]
    used = dict.fromkeys(queues, 0)
    for which, change in changes:
        name = queues[which % len(queues)]
        if change >= 0:
            tree.add_usage(name, {GPU: change})
        else:
            change = -min(-change, used[name])
            tree.remove_usage(name, {GPU: -change})
        used[name] += change
    truth = ByDefinition(nodes, used)
    for name in tree.names():
        assert tree.subtree_quota(name, GPU) == truth.subtree(name)
        assert tree.local_available(name, GPU) == max(0, truth.local(name) - truth.usage(name))
        assert tree.usage(name, GPU) == truth.usage(name)
        assert tree.available(name, GPU) == max(0, truth.available(name))
        assert tree.available(name, GPU) <= max(0, tree.potential(name, GPU))
    borrowers = {name for name in queues if tree.is_borrowing(name, GPU)}
    assert borrowers == {name for node in queues for name in tree.borrowing_queues(node, [GPU])}


# -- dominant shares -----------------------------------------------------------------------------


def weighted(name: str, weight: float, own: Mapping[FlavorResource, int]) -> QuotaNode:
    declared = {fr: Quota(nominal=amount) for fr, amount in own.items()}
    return QuotaNode(name=name, parent="lab", quotas=declared, weight=weight, is_queue=True)


@dataclass(frozen=True, kw_only=True)
class ShareCase:
    weight: float = 1.0
    used: Mapping[FlavorResource, int]
    extra: Mapping[FlavorResource, int] = field(default_factory=dict)
    rounded: int
    resource: str = ""


SHARES = {
    "who borrows nothing has no share": ShareCase(used={GPU: 2, CPU: 10}, rounded=0),
    "the share is the part of what could be lent": ShareCase(
        used={GPU: 4}, rounded=200, resource="gpu"
    ),
    "the resource that is borrowed most decides": ShareCase(
        used={GPU: 3, CPU: 60}, rounded=500, resource="cpu"
    ),
    "between equals the first name decides": ShareCase(
        used={GPU: 4, CPU: 30}, rounded=200, resource="cpu"
    ),
    "flavors of one resource add up": ShareCase(
        used={GPU: 3, SPOT: 1}, rounded=200, resource="gpu"
    ),
    "a double weight halves the share": ShareCase(
        weight=2, used={GPU: 4}, rounded=100, resource="gpu"
    ),
    "what is displayed is rounded up": ShareCase(
        weight=300, used={GPU: 4}, rounded=1, resource="gpu"
    ),
    "without weight any borrowing is infinitely too much": ShareCase(
        weight=0, used={GPU: 3}, rounded=INFINITE_SHARE, resource="gpu"
    ),
    "without weight and without borrowing there is no share": ShareCase(
        weight=0, used={GPU: 2}, rounded=0
    ),
    "an extra request counts as if it ran": ShareCase(
        used={GPU: 2}, extra={GPU: 2}, rounded=200, resource="gpu"
    ),
    "an extra request of an undeclared flavor is borrowed": ShareCase(
        used={GPU: 2}, extra={SPOT: 2}, rounded=200, resource="gpu"
    ),
}


def lab(weight: float) -> QuotaTree:
    others = {GPU: 8, CPU: 90}
    return QuotaTree(
        [team("lab"), weighted("a", weight, {GPU: 2, CPU: 10}), weighted("b", 1, others)]
    )


@pytest.mark.parametrize("sentence", SHARES)
def test_share(sentence: str) -> None:
    case = SHARES[sentence]
    tree = lab(case.weight)
    tree.add_usage("a", case.used)
    share = dominant_share(tree, "a", case.extra)
    assert (rounded(share), share.resource) == (case.rounded, case.resource)
    assert share.borrowing == (case.rounded > 0)
    assert rounded(dominant_share(tree, "lab", case.extra)) == 0


def test_shares_are_compared_unrounded_and_those_without_weight_among_themselves() -> None:
    shares = []
    for weight, gpus in ((1, 2), (500, 4), (500, 5), (1, 3), (0, 3), (0, 4)):
        tree = lab(weight)
        tree.add_usage("a", {GPU: gpus})
        shares.append(dominant_share(tree, "a"))
    assert sorted(shares) == shares
    assert len(set(shares)) == len(shares)
    assert [rounded(share) for share in shares[1:3]] == [1, 1]
    assert shares[-1].weighted == math.inf


# -- starting smaller ----------------------------------------------------------------------------

COUNTS = {
    "what fits whole is not shrunk": ([(5, 1), (5, 1)], 10, (5, 5)),
    "groups shrink in proportion to what each can spare": ([(8, 4), (4, 2)], 9, (6, 3)),
    "a group that can spare nothing stays whole": ([(5, 3), (5, 5)], 8, (3, 5)),
    "the smallest job may be the only one that fits": ([(5, 1), (5, 1)], 2, (1, 1)),
    "nothing is found if even the smallest does not fit": ([(5, 2), (5, 2)], 3, None),
    "nothing is found if nothing can be spared": ([(5, 5)], 9, None),
    "nothing is found for no groups": ([], 9, None),
}


@pytest.mark.parametrize("sentence", COUNTS)
def test_largest_fitting_counts(sentence: str) -> None:
    ranges, limit, expected = COUNTS[sentence]
    groups = [TaskGroupRange(count=count, min_count=least) for count, least in ranges]
    assert largest_fitting_counts(groups, lambda counts: sum(counts) <= limit) == expected


LIMITS = st.sampled_from((None, 0, 2, 5))
QUOTAS = st.builds(Quota, nominal=st.integers(0, 9), borrowing_limit=LIMITS, lending_limit=LIMITS)


@given(own=st.lists(QUOTAS, min_size=4, max_size=4), used=st.tuples(*[st.integers(0, 9)] * 2))
def test_the_limit_is_the_available_quota_and_names_an_ancestor(
    own: list[Quota], used: tuple[int, int]
) -> None:
    root, above, first, second = own
    tree = QuotaTree(
        [
            team("root", None, root),
            team("team", "root", above),
            queue("first", "team", first),
            queue("second", "root", second),
        ]
    )
    for name, amount in zip(("first", "second"), used, strict=True):
        tree.add_usage(name, {GPU: amount})
    available, limiter = tree.limit("first", GPU)
    assert available == tree.available("first", GPU)
    assert limiter in ("root", "team", "first")
