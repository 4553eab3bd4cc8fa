"""Checks of attempts, preemptions, claims, quota, and that every waiting job has an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from bursar.core.check import check
from bursar.model.decision import StopReason
from bursar.model.event import GpuPartitioned, TenantChanged
from bursar.model.jobs.attempt import Task
from bursar.model.tenants.tenant import Tenant
from tests.core.check.scene import Scene, at, layout_of, slice_of
from tests.support import Allowance, job, mig_job, queue, quota, tenant

Build = Callable[[], Scene]
FLAVOR = "a100-40gb/owned"


def old(**terms: object) -> Scene:
    """``old`` has run on the first GPU for an hour, and ``job`` waits."""
    return Scene().run(job("old", **terms), at("a-0001", 0)).wait(job())  # type: ignore[arg-type]


def preempt_old(scene: Scene) -> Scene:
    """``old`` is preempted for ``job``."""
    return scene.preempt("old", "job").claim("job", at("a-0001", 0), victims=("old",))


def often_preempted() -> Scene:
    scene = old()
    scene.state.jobs["old"].preemptions = 3
    return scene


def cancelled() -> Scene:
    scene = Scene().run(job("old"), at("a-0001", 0))
    scene.harness.cancel("old")
    return scene


ORDERS: dict[str, tuple[Build, str]] = {
    "a job that does not exist is not started": (
        lambda: Scene().start("job", at("a-0001", 0)),
        "StartJob for job, which has ended or never existed",
    ),
    "a job that runs is not started": (
        lambda: Scene().run(job(), at("a-0001", 0)).start("job", at("a-0001", 1), attempt=2),
        "StartJob for job, which is not waiting: it is running",
    ),
    "a job that waits for another is not started": (
        lambda: (
            old()
            .hold("job")
            .wait(job("next", cpu=1, depends_on=("old",)))
            .start("next", at("a-0001", 1))
        ),
        "StartJob for next, which is not waiting: it is blocked",
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
        "the claim of job waits for old, which is not stopped\n"
        "PreemptJob for old, which holds no resources: it is queued",
    ),
    "a job is preempted once": (
        lambda: preempt_old(old().preempt("old", "job")),
        "PreemptJob for old, which is already stopping",
    ),
    "a job that is stopping is not preempted": (
        lambda: preempt_old(old().stopping("old")),
        "PreemptJob for old, which is already stopping",
    ),
    "a job that is stopped is not preempted as well": (
        lambda: preempt_old(cancelled().stop("old").wait(job())),
        "PreemptJob for old, which is already stopping",
    ),
    "only preemptible jobs are preempted": (
        lambda: preempt_old(old(preemptible=False)),
        "old is preempted, but is not preemptible",
    ),
    "a job runs its minimum run time before preemption": (
        lambda: preempt_old(Scene().run(job("old"), at("a-0001", 0), hours=0.05).wait(job())),
        "old is preempted after 3 min; the minimum run time is 5 min",
    ),
    "a job is preempted at most as often as the policy allows": (
        lambda: preempt_old(often_preempted()),
        "old is preempted again after 3 preemptions; the policy allows 3",
    ),
    "a preemption is for a job with a claim": (
        lambda: old().preempt("old", "job").hold("job"),
        "old is preempted for job, which has no claim with it as a victim",
    ),
    "the victims of a claim are stopped": (
        lambda: old().claim("job", at("a-0001", 0), victims=("old",)),
        "the claim of job waits for old, which is not stopped",
    ),
    "a claim is for GPUs that its victims free": (
        lambda: (
            old()
            .run(job("other"), at("a-0001", 1))
            .preempt("old", "job")
            .claim("job", at("a-0001", 1), victims=("old",))
        ),
        "job is assigned all of GPU 1 of a-0001, of which other holds all",
    ),
    "a claim is for a GPU on which no other job starts": (
        lambda: (
            old()
            .wait(job("new", cpu=1))
            .start("new", at("a-0001", 1))
            .preempt("old", "job")
            .claim("job", at("a-0001", 1), victims=("old",))
        ),
        "job is assigned all of GPU 1 of a-0001, of which new holds all",
    ),
    "a claim is for a complete gang": (
        lambda: (
            old()
            .wait(job("wide", tasks=2))
            .hold("job")
            .preempt("old", "wide")
            .claim("wide", at("a-0001", 0), victims=("old",))
        ),
        "wide is placed with 1 task of main, needs 2",
    ),
    "a slice claimed next to others must be in the layout already": (
        lambda: (
            with_two_slices()
            .wait(mig_job("new", profile="2g.10gb"))
            .preempt("big", "new")
            .claim("new", sliced("2g.10gb@4"), victims=("big",))
        ),
        "new is assigned 2g.10gb@4 of GPU 0 of a-0001, whose layout is then: 1g.5gb@0 3g.20gb@4",
    ),
    "a job has at most one claim": (
        lambda: Scene().wait(job()).claimed("job", at("a-0001", 0)).claim("job", at("a-0002", 0)),
        "job gets a second claim while it still has the first",
    ),
    "only an existing claim is released": (
        lambda: Scene().wait(job()).release("job").hold("job"),
        "the claim of job is released, but it has none",
    ),
    "only a cancelled job is stopped as cancelled": (
        lambda: old().hold("job").stop("old"),
        "old is stopped (cancelled), but is running and has no time limit",
    ),
    "only a job past its time limit is stopped for it": (
        lambda: old(max_hours=2).hold("job").stop("old", StopReason.TIME_LIMIT),
        "old is stopped (time-limit), but is running and its limit is at 7200000 ms",
    ),
}


def sliced(text: str) -> Task:
    return replace(at("a-0001"), slices=(slice_of(0, text),))


def with_two_slices() -> Scene:
    """``small`` and ``big`` each run on a slice of the first GPU."""
    scene = Scene()
    layout = layout_of("1g.5gb@0 3g.20gb@4")
    scene.harness.apply(GpuPartitioned(at_ms=0, node="a-0001", gpu=0, layout=layout))
    scene.run(mig_job("small", profile="1g.5gb"), sliced("1g.5gb@0"))
    return scene.run(mig_job("big", profile="3g.20gb"), sliced("3g.20gb@4"))


def tree(**quotas: Allowance) -> tuple[Tenant, ...]:
    """Tenant ``top`` with the queues ``x`` and ``y``; by default they have no quota."""
    queues = (
        queue(name, "top", {FLAVOR: quotas[name]} if name in quotas else None) for name in "xy"
    )
    return (tenant("top", quota={FLAVOR: quotas["top"]} if "top" in quotas else None), *queues)


def in_tree(**quotas: Allowance) -> Scene:
    """``old`` of queue x runs on 2 GPUs; ``job`` of queue x and ``other`` of queue y request 2 each."""
    scene = Scene(tenants=tree(**quotas))
    scene.run(job("old", gpus=2, queue="x"), at("a-0001", 0, 1))
    return scene.wait(job(gpus=2, queue="x"), job("other", gpus=2, queue="y"))


def with_lowered_quota() -> Scene:
    """The quota of queue x was lowered from 4 GPUs to 1 while it uses 2."""
    scene = in_tree(x=quota(4, borrow=0), y=quota(4))
    changed = queue("x", "top", {FLAVOR: quota(1, borrow=0)})
    scene.harness.apply(TenantChanged(at_ms=scene.harness.now_ms, tenant=changed))
    return scene


TWO_MORE = at("a-0002", 0, 1)

QUOTAS: dict[str, tuple[Build, str]] = {
    "a queue without a parent has its nominal quota": (
        lambda: (
            Scene(tenants=(queue("x", quota={FLAVOR: 1}),))
            .wait(job(gpus=2, queue="x"))
            .start("job", TWO_MORE)
        ),
        "x would use 2 GPUs of a100-40gb/owned (now 0 GPUs); it has 1 GPU",
    ),
    "a tenant without a quota for a flavor that others limit has zero": (
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
    "a queue borrows up to its borrowing limit": (
        lambda: in_tree(top=quota(8), x=quota(2, borrow=1)).start("job", TWO_MORE).hold("other"),
        "x would use 4 GPUs of a100-40gb/owned (now 2 GPUs); it has 2 GPUs and 1 GPU to borrow",
    ),
    "quota above a lending limit cannot be borrowed": (
        lambda: in_tree(x=quota(2), y=quota(4, lend=1)).start("job", TWO_MORE).hold("other"),
        "top would use 4 GPUs of a100-40gb/owned (now 2 GPUs); it has 3 GPUs",
    ),
    "a tree that is over its quota does not grow": (
        lambda: with_lowered_quota().start("job", TWO_MORE).hold("other"),
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
    "a claim uses quota": (
        lambda: (
            in_tree(top=quota(4))
            .claimed("job", TWO_MORE)
            .hold("job", jobs=("job",))
            .start("other", at("a-0001", 2, 3))
        ),
        "top would use 6 GPUs of a100-40gb/owned (now 4 GPUs); it has 4 GPUs",
    ),
}

ANSWERS: dict[str, tuple[Build, str]] = {
    "every kind has an answer": (
        lambda: Scene().wait(job()),
        "jobs of one kind in research at priority 0: 1 waiting, 0 held",
    ),
    "a hold covers all waiting jobs of its kind": (
        lambda: Scene().wait(job(), job(), job()).hold("job", waiting=2),
        "jobs of one kind in research at priority 0: 3 waiting, 2 held",
    ),
    "a hold does not cover a started job": (
        lambda: Scene().wait(job(), job()).start("job", at("a-0001", 0)).hold("job-2", waiting=2),
        "jobs of one kind in research at priority 0: 1 waiting, 2 held",
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
        "jobs of one kind in research at priority 0: 2 waiting, 1 held",
    ),
    "a job that waits for another has a hold of its own": (
        lambda: old().wait(job("next", depends_on=("old",))).hold("job"),
        "next (blocked) has no answer",
    ),
    "a job with a claim has a hold of its own": (
        lambda: Scene().wait(job()).claimed("job", at("a-0001", 0)),
        "job (queued), with a claim, has no answer",
    ),
    "a job that runs is not held": (
        lambda: Scene().run(job(), at("a-0001", 0)).hold("job", jobs=("job",)),
        "job is held, but is not waiting: it is running",
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
        "job and other jobs of its kind are held without a reason",
    ),
}

BAD = {**ORDERS, **QUOTAS, **ANSWERS}


@pytest.mark.parametrize("sentence", sorted(BAD))
def test_an_invalid_order_is_reported(sentence: str) -> None:
    build, expected = BAD[sentence]
    assert build().faults() == expected.split("\n")


@pytest.mark.parametrize("sentence", sorted(QUOTAS))
def test_quota_is_also_checked_when_no_job_is_recounted(sentence: str) -> None:
    scene, expected = QUOTAS[sentence][0](), QUOTAS[sentence][1]
    faults = check(scene.state, scene.decisions, scene.harness.now_ms, recounted_jobs=0)
    assert [str(fault) for fault in faults] == [expected]


GOOD: dict[str, Build] = {
    "a claim names its victims": lambda: preempt_old(old()),
    "a claimed job may have a hold too": lambda: preempt_old(old()).hold("job", jobs=("job",)),
    "a victim may be a cancelled job": lambda: (
        cancelled().wait(job()).stop("old").claim("job", at("a-0001", 0), victims=("old",))
    ),
    "a job starts in its claimed placement": lambda: (
        Scene().wait(job()).claimed("job", at("a-0001", 0)).start("job", at("a-0001", 0))
    ),
    "a claimed node is open once its job has started": lambda: (
        Scene()
        .wait(job(), job("next", cpu=1))
        .claimed("job", at("a-0001", 0))
        .start("job", at("a-0001", 1))
        .start("next", at("a-0001", 0))
    ),
    "a job whose claim is released is in the backlog again": lambda: (
        Scene()
        .wait(job(), job())
        .claimed("job", at("a-0001", 0))
        .release("job")
        .hold("job", waiting=2)
    ),
    "a job whose claim is released may have a hold of its own": lambda: (
        Scene()
        .wait(job(), job())
        .claimed("job", at("a-0001", 0))
        .release("job")
        .hold("job", jobs=("job",))
        .hold("job-2")
    ),
    "a slice may be claimed on a GPU that is repartitioned after all jobs have left": lambda: (
        with_two_slices()
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
    "a queue borrows what its sibling lends": lambda: (
        in_tree(x=quota(2), y=quota(4, lend=2)).start("job", TWO_MORE).hold("other")
    ),
    "a queue within its quota starts jobs although its sibling is over quota": lambda: (
        with_lowered_quota().start("other", TWO_MORE).hold("job")
    ),
    "a claim uses the quota that its victims free": lambda: (
        in_tree(top=quota(2))
        .hold("job")
        .preempt("old", "other")
        .claim("other", at("a-0001", 0, 1), victims=("old",))
    ),
    "a flavor without a quota is not limited": lambda: (
        Scene(tenants=(queue("x", quota={"h100-80gb/owned": 1}),))
        .wait(job(gpus=2, queue="x"))
        .start("job", TWO_MORE)
    ),
}


@pytest.mark.parametrize("sentence", sorted(GOOD))
def test_a_valid_order_passes(sentence: str) -> None:
    assert GOOD[sentence]().faults() == []
