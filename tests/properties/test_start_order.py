"""No job starts out of order: strict queues stay in order, and priority counts."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from bursar.core.placement.pool_fit import shape_of
from bursar.core.state.job_record import JobRecord
from bursar.model.decision import ClaimPlacement, Decision, StartJob
from bursar.model.jobs.job import JobSpec, JobState
from bursar.model.tenants.tenant import Queueing
from tests.properties.random_steps import ANY_WORLD, Script, Step, StepRunner, scripts
from tests.properties.worlds import PRIORITIES, World, specs, worlds


def waiting_jobs(runner: StepRunner) -> list[JobRecord]:
    """Queued jobs without a claimed placement."""
    records = runner.state.jobs.values()
    return [one for one in records if one.state is JobState.QUEUED and one.claim is None]


def chosen_jobs(decisions: tuple[Decision, ...]) -> set[str]:
    """Jobs that start or claim a placement."""
    return {one.job_id for one in decisions if isinstance(one, StartJob | ClaimPlacement)}


@st.composite
def strict_worlds(draw: st.DrawFn) -> World:
    """Every queue is strict, and the order in it never changes with time."""
    world = draw(worlds())
    order = replace(world.policies.order, aging_step_ms=None)
    return replace(
        world,
        tenants=tuple(replace(one, queueing=Queueing.STRICT) for one in world.tenants),
        policies=replace(world.policies, order=order),
    )


def without_deadline(script: Script) -> Script:
    """Removes deadlines: an urgent one moves a job forward, which is another rule."""
    steps = tuple(
        step
        if step.spec is None
        else replace(step, spec=replace(step.spec, deadline_ms=None, slo=None))
        for step in script.steps
    )
    return replace(script, steps=steps)


def require_queue_order(runner: StepRunner, decisions: tuple[Decision, ...]) -> None:
    chosen = chosen_jobs(decisions)
    queues: dict[str, list[JobRecord]] = {}
    for record in waiting_jobs(runner):
        queues.setdefault(record.spec.queue, []).append(record)
    for records in queues.values():
        records.sort(key=lambda one: (-one.priority, one.rank))
        answered = [record.id in chosen for record in records]
        assert answered == sorted(answered, reverse=True), [record.id for record in records]


@given(scripts(strict_worlds()))
def test_a_strict_queue_is_served_from_its_head(script: Script) -> None:
    StepRunner(script.world, require_queue_order).run(without_deadline(script))


def require_priority_order(runner: StepRunner, decisions: tuple[Decision, ...]) -> None:
    chosen = chosen_jobs(decisions)
    starts = {one.job_id for one in decisions if isinstance(one, StartJob)}
    kinds: dict[tuple[str, object], list[JobRecord]] = {}
    for record in waiting_jobs(runner):
        kinds.setdefault((record.spec.queue, shape_of(record.spec)), []).append(record)
    for records in kinds.values():
        passed = [record.priority for record in records if record.id not in chosen]
        begun = [record.priority for record in records if record.id in starts]
        assert max(passed, default=-1_000_000) <= min(begun, default=1_000_000)


@st.composite
def similar_jobs(draw: st.DrawFn) -> Script:
    """A few shapes, many jobs of each, of different priorities."""
    world = draw(ANY_WORLD)
    order = replace(world.policies.order, aging_step_ms=None)
    world = replace(world, policies=replace(world.policies, order=order))
    shapes = draw(st.lists(specs(world), min_size=1, max_size=3))
    steps: list[Step] = []
    for _ in range(draw(st.integers(2, 5))):
        for spec in draw(st.lists(st.sampled_from(shapes), min_size=2, max_size=6)):
            steps.append(Step("submit", 0, of_priority(spec, draw(st.sampled_from(PRIORITIES)))))
        verbs = draw(st.lists(st.sampled_from(("finish", "advance", "stopped")), max_size=3))
        steps += [Step("cycle"), Step("start all"), *(Step(verb, 3) for verb in verbs)]
    return Script(world=world, steps=(*steps, Step("cycle")))


def of_priority(spec: JobSpec, name: str) -> JobSpec:
    return replace(spec, priority_class=name)


@given(similar_jobs())
def test_of_similar_jobs_in_one_queue_the_higher_priority_starts_first(script: Script) -> None:
    StepRunner(script.world, require_priority_order).run(script)
