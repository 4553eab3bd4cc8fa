"""The checker on orders as such: attempts, preemptions, claims, quota, and an answer for everyone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from bursar.core.check import check
from bursar.model.decision import StopReason
from bursar.model.event import GpuPartitioned, TenantChanged
from bursar.model.jobs.attempt import Task
from bursar.model.tenants.tenant import Tenant
from tests.core.check.scene import Scene, at, cut, slice_of
from tests.support import Allowance, job, mig_job, queue, quota, tenant

Build = Callable[[], Scene]
FLAVOR = "a100-40gb/owned"


def old(**terms: object) -> Scene:
    """``old`` runs on the first GPU since an hour, and ``job`` waits."""
    return Scene().run(job("old", **terms), at("a-0001", 0)).wait(job())  # type: ignore[arg-type]


def swap(scene: Scene) -> Scene:
    """``old`` makes way for ``job``."""
    return scene.preempt("old", "job").claim("job", at("a-0001", 0), victims=("old",))


def often_preempted() -> Scene:
    scene = old()
    scene.state.jobs["old"].preemptions = 3
    return scene


def cancelled() -> Scene:
    scene = Scene().run(job("old"), at("a-0001", 0))
    scene.stage.cancel("old")
    return scene


ORDERS: dict[str, tuple[Build, str]] = {
    "a job that is not there is not started": (
        lambda: Scene().start("job", at("a-0001", 0)),
        "StartJob for job, which is over or never was",
    ),
    "a job that runs is not started": (
        lambda: Scene().run(job(), at("a-0001", 0)).start("job", at("a-0001", 1), attempt=2),
        "StartJob for job, which does not wait: it is running",
    ),
    "a job that waits for another is not started": (
        lambda: (
            old()
            .hold("job")
            .wait(job("next", cpu=1, depends_on=("old",)))
            .start("next", at("a-0001", 1))
        ),
        "StartJob for next, which does not wait: it is blocked",
    ),
    "attempts count up by one": (
        lambda: Scene().wait(job()).start("job", at("a-0001", 0), attempt=2),
        "StartJob for attempt 2 of job, expected 1",
    ),
    "a preemption names the live attempt": (
        lambda: (
            old().preempt("old", "job", attempt=2).claim("job", at("a-0001", 0), victims=("old",))
        ),
        "PreemptJob for attempt 2 of old, expected 1",
    ),
    "a job that waits is not preempted": (
        lambda: (
            Scene()
            .wait(job("old", cpu=1), job())
            .hold("old")
            .preempt("old", "job", attempt=0)
            .claim("job", at("a-0001", 0), victims=("old",))
        ),
        "a place is kept for job until old leaves, who is not told to\n"
        "PreemptJob for old, which holds no room: it is queued",
    ),
    "a job is preempted once": (
        lambda: swap(old().preempt("old", "job")),
        "PreemptJob for old, which is told to stop already",
    ),
    "a job that was told to stop is not told again": (
        lambda: swap(old().told("old")),
        "PreemptJob for old, which is told to stop already",
    ),
    "a job that is stopped is not preempted as well": (
        lambda: swap(cancelled().stop("old").wait(job())),
        "PreemptJob for old, which is told to stop already",
    ),
    "only what is preemptible is preempted": (
        lambda: swap(old(preemptible=False)),
        "old is preempted, but is not preemptible",
    ),
    "a job runs its minimum first": (
        lambda: swap(Scene().run(job("old"), at("a-0001", 0), hours=0.05).wait(job())),
        "old is preempted after 3 min; it may run 5 min first",
    ),
    "a job is preempted so many times and no more": (
        lambda: swap(often_preempted()),
        "old is preempted once more after 3 times; the policy allows 3",
    ),
    "a preemption is for somebody who gains by it": (
        lambda: old().preempt("old", "job").hold("job"),
        "old is preempted for job, for which no place is kept with it as a victim",
    ),
    "a claim counts on those who leave": (
        lambda: old().claim("job", at("a-0001", 0), victims=("old",)),
        "a place is kept for job until old leaves, who is not told to",
    ),
    "a claim is for devices that its victims leave": (
        lambda: (
            old()
            .run(job("other"), at("a-0001", 1))
            .preempt("old", "job")
            .claim("job", at("a-0001", 1), victims=("old",))
        ),
        "job is given all of GPU 1 of a-0001, of which other holds all",
    ),
    "a claim is for a device that nobody starts on": (
        lambda: (
            old()
            .wait(job("new", cpu=1))
            .start("new", at("a-0001", 1))
            .preempt("old", "job")
            .claim("job", at("a-0001", 1), victims=("old",))
        ),
        "job is given all of GPU 1 of a-0001, of which new holds all",
    ),
    "a claim is for a gang that is whole": (
        lambda: (
            old()
            .wait(job("wide", tasks=2))
            .hold("job")
            .preempt("old", "wide")
            .claim("wide", at("a-0001", 0), victims=("old",))
        ),
        "wide has places for 1 tasks of main, needs 2",
    ),
    "a slice claimed beside others must be cut already": (
        lambda: (
            beside_a_slice()
            .wait(mig_job("new", profile="2g.10gb"))
            .preempt("big", "new")
            .claim("new", sliced("2g.10gb@4"), victims=("big",))
        ),
        "new is given 2g.10gb@4 of GPU 0 of a-0001, which is then cut otherwise: "
        "1g.5gb@0 3g.20gb@4",
    ),
    "a second place is not kept for one job": (
        lambda: Scene().wait(job()).kept("job", at("a-0001", 0)).claim("job", at("a-0002", 0)),
        "a second place is kept for job while it still has the first",
    ),
    "only a place that is kept is released": (
        lambda: Scene().wait(job()).release("job").hold("job"),
        "the place kept for job is released, but none is kept for it",
    ),
    "only what was cancelled is stopped as cancelled": (
        lambda: old().hold("job").stop("old"),
        "old is stopped as cancelled, but is running and it has no limit",
    ),
    "only what is past its limit is stopped for it": (
        lambda: old(max_hours=2).hold("job").stop("old", StopReason.TIME_LIMIT),
        "old is stopped as time-limit, but is running and its limit is 7200000",
    ),
}


def sliced(text: str) -> Task:
    return replace(at("a-0001"), slices=(slice_of(0, text),))


def beside_a_slice() -> Scene:
    """``small`` and ``big`` each run on a slice of the first GPU."""
    scene = Scene()
    layout = cut("1g.5gb@0 3g.20gb@4")
    scene.stage.apply(GpuPartitioned(at_ms=0, node="a-0001", gpu=0, layout=layout))
    scene.run(mig_job("small", profile="1g.5gb"), sliced("1g.5gb@0"))
    return scene.run(mig_job("big", profile="3g.20gb"), sliced("3g.20gb@4"))


def tree(**quotas: Allowance) -> tuple[Tenant, ...]:
    """Tenant ``top`` with the queues ``x`` and ``y``; without a word they have no quota."""
    queues = (
        queue(name, "top", {FLAVOR: quotas[name]} if name in quotas else None) for name in "xy"
    )
    return (tenant("top", quota={FLAVOR: quotas["top"]} if "top" in quotas else None), *queues)


def in_tree(**quotas: Allowance) -> Scene:
    """``old`` of queue x runs on 2 GPUs; ``job`` of queue x wants 2 more, ``other`` of queue y too."""
    scene = Scene(tenants=tree(**quotas))
    scene.run(job("old", gpus=2, queue="x"), at("a-0001", 0, 1))
    return scene.wait(job(gpus=2, queue="x"), job("other", gpus=2, queue="y"))


def lowered() -> Scene:
    """Queue x was allowed 4 GPUs until a moment ago and holds 2 of the 1 it has now."""
    scene = in_tree(x=quota(4, borrow=0), y=quota(4))
    changed = queue("x", "top", {FLAVOR: quota(1, borrow=0)})
    scene.stage.apply(TenantChanged(at_ms=scene.stage.now_ms, tenant=changed))
    return scene


TWO_MORE = at("a-0002", 0, 1)

QUOTAS: dict[str, tuple[Build, str]] = {
    "a queue alone has its nominal quota": (
        lambda: (
            Scene(tenants=(queue("x", quota={FLAVOR: 1}),))
            .wait(job(gpus=2, queue="x"))
            .start("job", TWO_MORE)
        ),
        "x would use 2 GPUs of a100-40gb/owned (now 0 GPUs); it has 1 GPU",
    ),
    "a tenant without a quota for a flavor others limit has none of it": (
        lambda: (
            Scene(tenants=(queue("x", quota={FLAVOR: 1}), queue("z")))
            .wait(job(queue="z"))
            .start("job", at("a-0001", 0))
        ),
        "z would use 1 GPU of a100-40gb/owned (now 0 GPUs); it has 0 GPUs",
    ),
    "starts of one list count together": (
        lambda: in_tree(top=quota(5)).start("job", TWO_MORE).start("other", at("a-0002", 2, 3)),
        "top would use 6 GPUs of a100-40gb/owned (now 2 GPUs); it has 5 GPUs",
    ),
    "a queue borrows so much and no more": (
        lambda: in_tree(top=quota(8), x=quota(2, borrow=1)).start("job", TWO_MORE).hold("other"),
        "x would use 4 GPUs of a100-40gb/owned (now 2 GPUs); it has 2 GPUs and 1 GPU to borrow",
    ),
    "what a queue does not lend cannot be borrowed": (
        lambda: in_tree(x=quota(2), y=quota(4, lend=1)).start("job", TWO_MORE).hold("other"),
        "top would use 4 GPUs of a100-40gb/owned (now 2 GPUs); it has 3 GPUs",
    ),
    "a tree that is over its quota does not grow": (
        lambda: lowered().start("job", TWO_MORE).hold("other"),
        "x would use 4 GPUs of a100-40gb/owned (now 2 GPUs); it has 1 GPU and 0 GPUs to borrow",
    ),
    "a claim has quota once its victims have left": (
        lambda: (
            in_tree(top=quota(2))
            .hold("job")
            .run(job("tiny", gpus=0, queue="x"), at("a-0001"))
            .preempt("tiny", "other")
            .claim("other", at("a-0002", 0, 1), victims=("tiny",))
        ),
        "top would use 4 GPUs of a100-40gb/owned (now 2 GPUs); it has 2 GPUs",
    ),
    "a kept place keeps its quota": (
        lambda: (
            in_tree(top=quota(4))
            .kept("job", TWO_MORE)
            .hold("job", jobs=("job",))
            .start("other", at("a-0001", 2, 3))
        ),
        "top would use 6 GPUs of a100-40gb/owned (now 4 GPUs); it has 4 GPUs",
    ),
}

ANSWERS: dict[str, tuple[Build, str]] = {
    "every kind has an answer": (
        lambda: Scene().wait(job()),
        "1 jobs of one kind wait in research at priority 0; 0 are held",
    ),
    "a hold speaks for all that wait of its kind": (
        lambda: Scene().wait(job(), job(), job()).hold("job", waiting=2),
        "3 jobs of one kind wait in research at priority 0; 2 are held",
    ),
    "a hold does not speak for what is started": (
        lambda: Scene().wait(job(), job()).start("job", at("a-0001", 0)).hold("job-2", waiting=2),
        "1 jobs of one kind wait in research at priority 0; 2 are held",
    ),
    "a kind is held once": (
        lambda: Scene().wait(job()).hold("job").hold("job"),
        "job has 2 answers: Hold, Hold",
    ),
    "a hold has a head that it covers": (
        lambda: Scene().wait(job(), job()).start("job", at("a-0001", 0)).hold("job"),
        "job is the head of a hold that does not cover it",
    ),
    "a hold for particular jobs has one of them as head": (
        lambda: Scene().wait(job(), job()).hold("job", jobs=("job-2",)).hold("job"),
        "job is the head of a hold that does not cover it",
    ),
    "a job is started once": (
        lambda: Scene().wait(job()).start("job", at("a-0001", 0)).start("job", at("a-0002", 0)),
        "job has 2 answers: StartJob, StartJob",
    ),
    "a job is started or held, not both": (
        lambda: Scene().wait(job()).start("job", at("a-0001", 0)).hold("job", jobs=("job",)),
        "job has 2 answers: StartJob, Hold",
    ),
    "a hold for particular jobs counts them": (
        lambda: Scene().wait(job(), job()).hold("job", waiting=1, jobs=("job", "job-2")),
        "2 jobs of one kind wait in research at priority 0; 1 are held",
    ),
    "a job that waits for another has a hold of its own": (
        lambda: old().wait(job("next", depends_on=("old",))).hold("job"),
        "next (blocked) has no answer",
    ),
    "a job with a kept place has a hold of its own": (
        lambda: Scene().wait(job()).kept("job", at("a-0001", 0)),
        "job (queued), with a place kept for it, has no answer",
    ),
    "a job that runs is not held": (
        lambda: Scene().run(job(), at("a-0001", 0)).hold("job", jobs=("job",)),
        "job is held, but does not wait: it is running",
    ),
    "a job is held with its own kind": (
        lambda: (
            Scene()
            .wait(job(), job("big", gpus=2))
            .hold("job")
            .hold("big", jobs=("big",))
            .as_kind_of("job")
        ),
        "big is not of the kind it is held with (research, 0)",
    ),
    "a hold has a reason": (
        lambda: Scene().wait(job()).hold("job", reasons=()),
        "job and its like are held without a reason",
    ),
}

BAD = {**ORDERS, **QUOTAS, **ANSWERS}


@pytest.mark.parametrize("sentence", sorted(BAD))
def test_a_bad_order_is_found(sentence: str) -> None:
    build, expected = BAD[sentence]
    assert build().faults() == expected.split("\n")


@pytest.mark.parametrize("sentence", sorted(QUOTAS))
def test_quota_is_also_kept_when_no_job_is_counted_anew(sentence: str) -> None:
    scene, expected = QUOTAS[sentence][0](), QUOTAS[sentence][1]
    found = check(scene.state, scene.decisions, scene.stage.now_ms, recounted_jobs=0)
    assert [str(fault) for fault in found] == [expected]


GOOD: dict[str, Build] = {
    "a place is kept against its victims": lambda: swap(old()),
    "a claim may have a hold beside it": lambda: swap(old()).hold("job", jobs=("job",)),
    "a victim that was cancelled leaves anyway": lambda: (
        cancelled().wait(job()).stop("old").claim("job", at("a-0001", 0), victims=("old",))
    ),
    "a claimant starts in its place": lambda: (
        Scene().wait(job()).kept("job", at("a-0001", 0)).start("job", at("a-0001", 0))
    ),
    "what was kept for a claimant is open once it has started": lambda: (
        Scene()
        .wait(job(), job("next", cpu=1))
        .kept("job", at("a-0001", 0))
        .start("job", at("a-0001", 1))
        .start("next", at("a-0001", 0))
    ),
    "a released job goes back in line": lambda: (
        Scene()
        .wait(job(), job())
        .kept("job", at("a-0001", 0))
        .release("job")
        .hold("job", waiting=2)
    ),
    "a released job may have a hold of its own": lambda: (
        Scene()
        .wait(job(), job())
        .kept("job", at("a-0001", 0))
        .release("job")
        .hold("job", jobs=("job",))
        .hold("job-2")
    ),
    "a slice may be claimed on a GPU to be cut when all have left": lambda: (
        beside_a_slice()
        .wait(mig_job("new", profile="2g.10gb"))
        .preempt("big", "new")
        .preempt("small", "new")
        .claim("new", sliced("2g.10gb@4"), victims=("big", "small"))
    ),
    "a job past its limit is stopped": lambda: (
        old(max_hours=1).hold("job").stop("old", StopReason.TIME_LIMIT)
    ),
    "a cancelled job is stopped": lambda: cancelled().stop("old"),
    "a job that waits for another is held by name": lambda: (
        old().wait(job("next", depends_on=("old",))).hold("job").hold("next", jobs=("next",))
    ),
    "a queue borrows what its neighbour lends": lambda: (
        in_tree(x=quota(2), y=quota(4, lend=2)).start("job", TWO_MORE).hold("other")
    ),
    "a queue within its quota starts although its neighbour is over its own": lambda: (
        lowered().start("other", TWO_MORE).hold("job")
    ),
    "a claim takes the quota its victims leave": lambda: (
        in_tree(top=quota(2))
        .hold("job")
        .preempt("old", "other")
        .claim("other", at("a-0001", 0, 1), victims=("old",))
    ),
    "what nobody limits is not counted": lambda: (
        Scene(tenants=(queue("x", quota={"h100-80gb/owned": 1}),))
        .wait(job(gpus=2, queue="x"))
        .start("job", TWO_MORE)
    ),
}


@pytest.mark.parametrize("sentence", sorted(GOOD))
def test_a_good_order_passes(sentence: str) -> None:
    assert GOOD[sentence]().faults() == []
