"""Which jobs are chosen as victims, and that the search changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.other_schedulers.kueue_victim_order import heaviest_owner_first
from bursar.core.preemption.candidates import (
    Candidate,
    PreemptionRules,
    Preemptor,
    Victim,
    in_victim_order,
    may_preempt,
)
from bursar.core.preemption.preempt import choose_victims
from bursar.core.quota.quota_tree import QuotaNode, QuotaTree
from bursar.model.tenants.policy import (
    BorrowWhileReclaiming,
    FairStrategy,
    PreemptionPolicy,
    Reclaim,
    VictimOrder,
    WithinQueue,
)
from bursar.model.tenants.tenant import Quota

GPU = ("a100/owned", "gpu")
SPOT = ("a100/spot", "gpu")

FINAL = FairStrategy.LESS_THAN_OR_EQUAL_TO_FINAL_SHARE
INITIAL = FairStrategy.LESS_THAN_INITIAL_SHARE
FAIR = PreemptionRules(fair_strategies=(FINAL, INITIAL))

OPEN = PreemptionPolicy(within_queue=WithinQueue.LOWER_PRIORITY, reclaim=Reclaim.ANY)
RECLAIM_ONLY = PreemptionPolicy(reclaim=Reclaim.ANY)


def queue(name: str, gpus: int | Quota, parent: str | None = "org", weight: float = 1) -> QuotaNode:
    quota = gpus if isinstance(gpus, Quota) else Quota(nominal=gpus)
    return QuotaNode(name=name, parent=parent, quotas={GPU: quota}, weight=weight, is_queue=True)


def team(name: str, gpus: int = 0, parent: str | None = None) -> QuotaNode:
    return QuotaNode(name=name, parent=parent, quotas={GPU: Quota(nominal=gpus)}, is_queue=False)


def job(name: str, gpus: int = 1, priority: int = 0, started: int = 0) -> Candidate:
    """A running job of the queue that its name starts with; older ids sort first."""
    return Candidate(
        id=name,
        queue=name[0],
        priority=priority,
        queued_at_ms=started,
        started_at_ms=started,
        usage={GPU: gpus},
    )


@dataclass(frozen=True, kw_only=True)
class Case:
    """Job ``new`` of queue ``a`` requests GPUs; ``stopped`` maps its victims to the reason."""

    nodes: Sequence[QuotaNode]
    running: Sequence[Candidate]
    wants: int
    priority: int = 0
    policy: PreemptionPolicy = OPEN
    rules: PreemptionRules = field(default_factory=PreemptionRules)
    stopped: Mapping[str, str] = field(default_factory=dict)

    def world(self) -> tuple[QuotaTree, dict[str, list[Candidate]]]:
        tree = QuotaTree(self.nodes)
        running: dict[str, list[Candidate]] = {}
        for candidate in self.running:
            tree.add_usage(candidate.queue, candidate.usage)
            running.setdefault(candidate.queue, []).append(candidate)
        return tree, running

    def preemptor(self) -> Preemptor:
        return Preemptor(
            id="new",
            queue="a",
            priority=self.priority,
            queued_at_ms=5,
            requests={GPU: self.wants},
            contested=frozenset({GPU}),
        )

    def answer(self) -> tuple[Victim, ...]:
        tree, running = self.world()
        return choose_victims(tree, self.preemptor(), running, {"a": self.policy}, self.rules)


ALONE = [queue("a", 4, parent=None)]
TWO = [team("org"), queue("a", 4), queue("b", 4)]
BORROWERS = [team("org", 4), queue("a", 0), queue("b", 0)]

CLASSICAL = {
    "inside a queue the lowest priority goes first": Case(
        nodes=ALONE,
        running=[job("a1", 2, priority=1), job("a2", 2, priority=0)],
        wants=2,
        priority=2,
        stopped={"a2": "in-queue"},
    ),
    "of equals the one that started last goes first": Case(
        nodes=ALONE,
        running=[job("a1", 2, started=1), job("a2", 2, started=2)],
        wants=2,
        priority=1,
        stopped={"a2": "in-queue"},
    ),
    "no job is stopped if that would not be enough": Case(
        nodes=ALONE, running=[job("a1", 2), job("a2", 2, priority=9)], wants=4, priority=1
    ),
    "who turns out not to be needed is spared": Case(
        nodes=ALONE,
        running=[job("a1", 1, priority=0), job("a2", 3, priority=1)],
        wants=3,
        priority=2,
        stopped={"a2": "in-queue"},
    ),
    "jobs that use nothing contested are left alone": Case(
        nodes=ALONE,
        running=[replace(job("a1"), usage={SPOT: 4}), job("a2", 4, priority=1)],
        wants=1,
        priority=2,
        stopped={"a2": "in-queue"},
    ),
    "a newer job of equal priority goes where the policy allows it": Case(
        nodes=ALONE,
        running=[job("a1", 2, started=4), job("a2", 2, started=6)],
        wants=2,
        policy=PreemptionPolicy(within_queue=WithinQueue.LOWER_OR_NEWER_EQUAL_PRIORITY),
        stopped={"a2": "in-queue"},
    ),
    "what was lent is taken back, whatever the priority": Case(
        nodes=TWO,
        running=[job("b1", 4, priority=9), job("b2", 3, priority=8)],
        wants=4,
        stopped={"b2": "reclaim"},
    ),
    "a queue within its quota is protected": Case(
        nodes=TWO, running=[job("b1", 4), job("a1", 4, priority=9)], wants=1, priority=5
    ),
    "a queue is protected as soon as it is back within its quota": Case(
        nodes=[*TWO, queue("c", 0)],
        running=[job("b1", 3, priority=-1), job("b2", 2), job("c1", 3)],
        wants=4,
        policy=RECLAIM_ONLY,
        stopped={"b1": "reclaim", "c1": "reclaim"},
    ),
    "a queue below its quota reclaims before it borrows at its own jobs' expense": Case(
        nodes=TWO,
        running=[job("a1", 2, priority=-2), job("a2", 1, priority=-1), job("b1", 1), job("b2", 4)],
        wants=3,
        stopped={"b1": "reclaim", "a1": "in-queue"},
    ),
    "by reclaiming alone one does not get beyond one's own quota": Case(
        nodes=TWO,
        running=[job("a1", 4, priority=9), job("b1", 2), job("b2", 2)],
        wants=1,
        priority=5,
        policy=RECLAIM_ONLY,
    ),
    "lower priorities are reclaimed while borrowing, if that is allowed": Case(
        nodes=[team("org", 2), *TWO[1:]],
        running=[job("a1", 4, priority=9), job("b1", 3), job("b2", 3)],
        wants=1,
        priority=5,
        policy=replace(RECLAIM_ONLY, borrow_while_reclaiming=BorrowWhileReclaiming()),
        stopped={"b1": "reclaim-while-borrowing"},
    ),
    "but not above the priority bound": Case(
        nodes=[team("org", 2), *TWO[1:]],
        running=[job("a1", 4, priority=9), job("b1", 3), job("b2", 3)],
        wants=1,
        priority=5,
        policy=replace(
            RECLAIM_ONLY, borrow_while_reclaiming=BorrowWhileReclaiming(max_priority=-1)
        ),
    ),
    "one's team has the better claim on its own quota": Case(
        nodes=[team("org"), team("lab", 2, "org"), queue("a", 0, "lab"), queue("b", 0)],
        running=[job("b1", 1, priority=8), job("b2", 1, priority=9)],
        wants=2,
        policy=replace(RECLAIM_ONLY, reclaim=Reclaim.ANY),
        stopped={"b1": "reclaim", "b2": "reclaim"},
    ),
    "that claim holds at every level above, even where others have used up more": Case(
        nodes=[
            team("top", 1),
            team("org", 0, "top"),
            team("lab", 2, "org"),
            queue("a", 0, "lab"),
            queue("c", 0, "org"),
            queue("b", 0, "top"),
        ],
        running=[job("b1", 2), job("c1", 1, priority=9)],
        wants=2,
        priority=1,
        policy=PreemptionPolicy(reclaim=Reclaim.LOWER_PRIORITY),
        stopped={"b1": "reclaim"},
    ),
    "a borrower inside a team that borrows nothing is protected": Case(
        nodes=[team("org"), team("lab", 4, "org"), queue("a", 4), queue("b", 0, "lab")],
        running=[job("b1", 4), job("a1", 4, priority=9)],
        wants=1,
        policy=RECLAIM_ONLY,
    ),
    "who is stopping anyway is counted on before anyone else": Case(
        nodes=ALONE,
        running=[job("a1", 2, priority=0), replace(job("a2", 2, priority=1), stopping=True)],
        wants=2,
        priority=2,
        stopped={"a2": "in-queue"},
    ),
    "other queues give back before the own queue suffers": Case(
        nodes=TWO,
        running=[job("a1", 2, priority=-5), job("b1", 3), job("b2", 3)],
        wants=2,
        priority=1,
        stopped={"b1": "reclaim"},
    ),
    "an unset policy yields no victim": Case(
        nodes=TWO,
        running=[job("a1", 2, priority=-5), job("b1", 3), job("b2", 3)],
        wants=2,
        priority=1,
        policy=PreemptionPolicy(within_queue=WithinQueue.UNSET, reclaim=Reclaim.UNSET),
    ),
    "the cheapest loss goes first, if so wished": Case(
        nodes=ALONE,
        running=[
            replace(job("a1", 2, started=9), lost_micro_usd=70),
            replace(job("a2", 2, started=1), lost_micro_usd=30),
        ],
        wants=2,
        priority=1,
        rules=PreemptionRules(victim_order=VictimOrder.LEAST_LOST_WORK),
        stopped={"a2": "in-queue"},
    ),
    "the cheapest loss does not outweigh priority": Case(
        nodes=ALONE,
        running=[
            replace(job("a1", 2, priority=0), lost_micro_usd=70),
            replace(job("a2", 2, priority=1), lost_micro_usd=30),
        ],
        wants=2,
        priority=2,
        rules=PreemptionRules(victim_order=VictimOrder.LEAST_LOST_WORK),
        stopped={"a1": "in-queue"},
    ),
}

THREE = [team("org"), queue("a", 3), queue("b", 3), queue("c", 3)]
ONES = [job(f"b{n}") for n in range(1, 6)] + [job(f"c{n}") for n in range(1, 5)]

BY_FAIR_SHARE = {
    "within its own quota a queue takes from the queue that borrows most": Case(
        nodes=THREE, running=ONES, wants=1, rules=FAIR, stopped={"b1": "reclaim"}
    ),
    "from queues that borrow equally, the next in order goes": Case(
        nodes=THREE,
        running=[*ONES[:4], *ONES[5:], job("a1")],
        wants=2,
        rules=FAIR,
        stopped={"b1": "reclaim", "c1": "reclaim"},
    ),
    "beyond its quota a queue takes until the sides are even": Case(
        nodes=THREE,
        running=[*(job(f"a{n}") for n in range(1, 4)), *(job(f"b{n}") for n in range(1, 7))],
        wants=1,
        rules=FAIR,
        stopped={"b1": "fair-share"},
    ),
    "but never so that it would merely change places": Case(
        nodes=THREE,
        running=[job("a1", 4), job("b1", 5)],
        wants=1,
        policy=RECLAIM_ONLY,
        rules=FAIR,
    ),
    "a large victim goes if our side still has less than theirs had": Case(
        nodes=THREE,
        running=[job("b1", 9)],
        wants=4,
        rules=FAIR,
        stopped={"b1": "fair-share"},
    ),
    "only by the first rule, that large victim stays": Case(
        nodes=THREE,
        running=[job("b1", 9)],
        wants=4,
        rules=PreemptionRules(fair_strategies=(FINAL,)),
    ),
    "by the second rule alone, it goes": Case(
        nodes=THREE,
        running=[job("b1", 9)],
        wants=4,
        rules=PreemptionRules(fair_strategies=(INITIAL,)),
        stopped={"b1": "fair-share"},
    ),
    "what our share refuses at first is not looked at again, even once own jobs must go": Case(
        nodes=BORROWERS,
        running=[job("a1"), job("b1"), job("b2"), job("b3")],
        wants=2,
        priority=1,
        rules=PreemptionRules(fair_strategies=(FINAL,)),
    ),
    "unless asked to: without own jobs our share is small enough": Case(
        nodes=BORROWERS,
        running=[job("a1"), job("b1"), job("b2"), job("b3")],
        wants=2,
        priority=1,
        rules=PreemptionRules(fair_strategies=(FINAL,), retry_first_rule=True),
        stopped={"a1": "in-queue", "b1": "fair-share"},
    ),
    "who stays within quota reclaims without comparing shares": Case(
        nodes=TWO,
        running=[job("b1", 8)],
        wants=4,
        rules=FAIR,
        stopped={"b1": "reclaim"},
    ),
    "unless quota alone gives no entitlement": Case(
        nodes=TWO,
        running=[job("b1", 8)],
        wants=4,
        rules=PreemptionRules(fair_strategies=(FINAL,), quota_entitles=False),
        stopped={"b1": "fair-share"},
    ),
    "who weighs more may take more": Case(
        nodes=[team("org"), queue("a", 3, weight=2), queue("b", 6)],
        running=[job("a1", 3), job("b1", 2), job("b2", 2), job("b3", 2)],
        wants=1,
        rules=FAIR,
    ),
    "a queue without weight may be reclaimed from only what it borrows": Case(
        nodes=[team("org"), queue("a", 3), queue("b", 3, weight=0)],
        running=[job("a1", 3), job("b1", 1), job("b2", 2)],
        wants=1,
        policy=RECLAIM_ONLY,
        rules=FAIR,
    ),
    "a queue alone preempts by priority": Case(
        nodes=ALONE,
        running=[job("a1", 2, priority=0), job("a2", 2, priority=1)],
        wants=2,
        priority=2,
        rules=FAIR,
        stopped={"a1": "in-queue"},
    ),
    "a borrower inside a team that borrows nothing is protected by it": Case(
        nodes=[
            team("org"),
            team("lab", 4, "org"),
            queue("a", 4),
            queue("b", 0, "lab"),
            queue("c", 0),
        ],
        running=[job("b1", 4), job("a1", 3, priority=9), job("c1", 1, priority=9)],
        wants=1,
        priority=1,
        policy=PreemptionPolicy(reclaim=Reclaim.LOWER_PRIORITY),
        rules=FAIR,
    ),
    "a borrower without any declared quota is not overlooked": Case(
        nodes=[
            team("org"),
            team("lab", 1, "org"),
            queue("a", 3),
            QuotaNode(name="b", parent="lab", is_queue=True),
        ],
        running=[job("b1", 1), job("b2", 3)],
        wants=3,
        rules=FAIR,
        stopped={"b2": "reclaim"},
    ),
}
CASES = CLASSICAL | BY_FAIR_SHARE


@pytest.mark.parametrize("sentence", CASES)
def test_victims(sentence: str) -> None:
    case = CASES[sentence]
    assert {victim.id: str(victim.reason) for victim in case.answer()} == case.stopped


@pytest.mark.parametrize("sentence", CASES)
def test_the_order_of_the_candidates_does_not_matter(sentence: str) -> None:
    case = CASES[sentence]
    assert replace(case, running=case.running[::-1]).answer() == case.answer()


@dataclass(frozen=True)
class Rank:
    priority: int
    queued_at_ms: int


LEGAL: dict[str, tuple[WithinQueue | Reclaim, tuple[int, int], tuple[int, int], bool]] = {
    "a lower priority may be preempted": (WithinQueue.LOWER_PRIORITY, (2, 0), (1, 0), True),
    "an equal one may not": (WithinQueue.LOWER_PRIORITY, (1, 0), (1, 9), False),
    "a newer equal may, by that policy": (
        WithinQueue.LOWER_OR_NEWER_EQUAL_PRIORITY,
        (1, 0),
        (1, 9),
        True,
    ),
    "one of the same age may not": (
        WithinQueue.LOWER_OR_NEWER_EQUAL_PRIORITY,
        (1, 9),
        (1, 9),
        False,
    ),
    "a newer one of higher priority may not": (
        WithinQueue.LOWER_OR_NEWER_EQUAL_PRIORITY,
        (1, 0),
        (2, 9),
        False,
    ),
    "any is any": (Reclaim.ANY, (0, 0), (9, 0), True),
    "never is never": (Reclaim.NEVER, (9, 0), (0, 0), False),
    "unset permits nothing": (WithinQueue.UNSET, (9, 0), (0, 0), False),
}


@pytest.mark.parametrize("sentence", LEGAL)
def test_legality(sentence: str) -> None:
    rule, preemptor, candidate, allowed = LEGAL[sentence]
    assert may_preempt(rule, Rank(*preemptor), Rank(*candidate)) == allowed


def test_in_a_queue_that_shares_by_owner_the_largest_owner_is_preempted_first() -> None:
    candidates = [
        job("a1", priority=0),
        job("a2", priority=5),
        replace(job("a3", priority=9), stopping=True),
        job("b1", priority=3),
        job("b2", priority=7),
    ]
    usage = {"a1": 1.0, "a2": 8.0, "a3": 1.0}
    ordered = heaviest_owner_first(candidates, "z", VictimOrder.NEWEST_FIRST, usage)
    assert [candidate.id for candidate in ordered] == ["a3", "b1", "a2", "a1", "b2"]


def test_jobs_of_other_queues_are_preempted_first() -> None:
    candidates = [job("a1", priority=0), job("b1", priority=9)]
    ordered = in_victim_order(candidates, "a", VictimOrder.NEWEST_FIRST)
    assert [candidate.id for candidate in ordered] == ["b1", "a1"]


def test_fair_strategies_that_cannot_be_combined_are_rejected() -> None:
    with pytest.raises(ValueError, match="cannot be combined"):
        PreemptionRules(fair_strategies=(INITIAL, FINAL))


class ScriptedPlacement:
    """The gang fits once certain jobs are removed; checks that all are restored."""

    def __init__(self, enough: Callable[[set[str]], bool]) -> None:
        self.out: set[str] = set()
        self.enough = enough

    def remove(self, candidate_id: str) -> None:
        self.out.add(candidate_id)

    def restore(self, candidate_id: str) -> None:
        self.out.remove(candidate_id)

    def fits(self) -> bool:
        return self.enough(self.out)


@pytest.mark.parametrize("rules", [PreemptionRules(), FAIR], ids=["classical", "fair"])
def test_the_gang_needs_a_placement_in_addition_to_quota(rules: PreemptionRules) -> None:
    placement = ScriptedPlacement(lambda out: {"a3", "a4"} <= out)
    running = [job(f"a{number}", 1, priority=number) for number in range(1, 5)]
    rules = replace(rules, placement=placement)
    case = Case(nodes=ALONE, running=running, wants=1, priority=9, rules=rules)
    assert {victim.id for victim in case.answer()} == {"a3", "a4"}
    assert placement.out == set()


@pytest.mark.parametrize("rules", [PreemptionRules(), FAIR], ids=["classical", "fair"])
@pytest.mark.parametrize("at", ["remove", "fits"])
def test_an_exception_leaves_the_tree_unchanged(
    rules: PreemptionRules, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(Exception):
        pass

    def fail(*_: object) -> bool:
        raise Broken

    placement = ScriptedPlacement(bool)
    monkeypatch.setattr(placement, at, fail)
    case = Case(nodes=TWO, running=[job("b1", 4), job("b2", 3)], wants=4)
    tree, running = case.world()
    before = [tree.usage(name, GPU) for name in tree.names()]
    with pytest.raises(Broken):
        choose_victims(
            tree, case.preemptor(), running, {"a": OPEN}, replace(rules, placement=placement)
        )
    assert [tree.usage(name, GPU) for name in tree.names()] == before
    assert placement.out == set()


quantities = st.integers(0, 5)
limits = st.none() | st.integers(0, 4)
RULES = [
    PreemptionRules(),
    FAIR,
    *(PreemptionRules(fair_strategies=(s,)) for s in (FINAL, INITIAL)),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Two teams under one organisation, queues a to e among them, jobs of all sizes."""
    nodes = [team("org", draw(quantities))]
    nodes += [team(name, draw(quantities), "org") for name in ("lab", "shop")]
    for name in "abcde":
        quota = Quota(
            nominal=draw(quantities), borrowing_limit=draw(limits), lending_limit=draw(limits)
        )
        parent = draw(st.sampled_from(["org", "lab", "shop"]))
        nodes.append(queue(name, quota, parent, draw(st.sampled_from([0, 0.5, 1, 2]))))
    running = [
        job(f"{draw(st.sampled_from('abcde'))}{index}", draw(st.integers(1, 4)), index % 3)
        for index in range(draw(st.integers(0, 12)))
    ]
    return Case(
        nodes=nodes,
        running=running,
        wants=draw(st.integers(1, 6)),
        priority=draw(st.integers(0, 3)),
        policy=PreemptionPolicy(
            within_queue=draw(st.sampled_from(WithinQueue)),
            reclaim=draw(st.sampled_from(Reclaim)),
            borrow_while_reclaiming=draw(
                st.sampled_from(
                    [None, BorrowWhileReclaiming(), BorrowWhileReclaiming(max_priority=1)]
                )
            ),
        ),
        rules=draw(st.sampled_from(RULES)),
    )


@given(cases())
def test_victims_are_legal_sufficient_and_needed(case: Case) -> None:
    tree, running = case.world()
    before = [(tree.usage(name, GPU), tree.available(name, GPU)) for name in tree.names()]
    borrowing = set(tree.borrowing_queues("a", [GPU]))
    victims = choose_victims(tree, case.preemptor(), running, {"a": case.policy}, case.rules)
    assert [(tree.usage(name, GPU), tree.available(name, GPU)) for name in tree.names()] == before
    if not victims or tree.fits("a", {GPU: case.wants}):
        return
    by_id = {candidate.id: candidate for candidate in case.running}
    stopped = [by_id[victim.id] for victim in victims]
    assert len(stopped) == len({candidate.id for candidate in stopped})
    for candidate in stopped:
        own = candidate.queue == "a"
        rule = case.policy.within_queue if own else case.policy.reclaim
        assert may_preempt(rule, case.preemptor(), candidate)
        assert own or candidate.queue in borrowing
        tree.remove_usage(candidate.queue, candidate.usage)
    assert tree.fits("a", {GPU: case.wants})
    if case.rules.fair_strategies:
        for candidate in stopped:
            tree.add_usage(candidate.queue, candidate.usage)
            assert not tree.fits("a", {GPU: case.wants})
            tree.remove_usage(candidate.queue, candidate.usage)
