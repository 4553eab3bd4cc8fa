"""Simultaneous events may come in any order: the decisions are the same."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.vendor.pretty import RepresentationPrinter

from bursar.core.admission.admit import submissions
from bursar.model.decision import Decision
from bursar.model.errors import UserError
from bursar.model.jobs.job import JobSpec
from bursar.model.units import MINUTE_MS
from tests.properties.plays import ANY_WORLD, fresh_state
from tests.properties.worlds import World, brief, known_models, specs
from tests.support import SchedulerHarness

Named = tuple[str, JobSpec]


@dataclass(frozen=True, slots=True, kw_only=True)
class Twins:
    """A world and its jobs, batch by batch, twice: the same things in two orders."""

    worlds: tuple[World, World]
    batches: tuple[tuple[tuple[Named, ...], tuple[Named, ...]], ...]

    def _repr_pretty_(self, printer: RepresentationPrinter, _cycle: bool) -> None:
        lines = [brief(self.worlds[0])]
        for batch, shuffled in self.batches:
            lines += [brief(one) for one in batch] + [str([job_id for job_id, _ in shuffled])]
        printer.text("\n".join(lines))


@st.composite
def twins(draw: st.DrawFn) -> Twins:
    world = draw(ANY_WORLD)
    fleet = world.fleet
    shuffled = replace(
        world,
        fleet=replace(
            fleet,
            pools=tuple(draw(st.permutations(fleet.pools))),
            nodes=tuple(draw(st.permutations(fleet.nodes))),
        ),
        tenants=tuple(draw(st.permutations(world.tenants))),
    )
    batches = []
    for number in range(draw(st.integers(1, 4))):
        found = draw(st.lists(specs(world), min_size=2, max_size=6))
        named = tuple((f"j{number}{at:02d}", spec) for at, spec in enumerate(found))
        batches.append((named, tuple(draw(st.permutations(named)))))
    return Twins(worlds=(world, shuffled), batches=tuple(batches))


def submit_all(stage: SchedulerHarness, batch: tuple[Named, ...]) -> None:
    for job_id, spec in batch:
        with suppress(UserError):
            for event in submissions(spec, job_id, stage.now_ms, stage.state, known_models()):
                stage.apply(event)


def go_on(stage: SchedulerHarness, number: int, *, backwards: bool) -> None:
    """Simultaneous reports, in one order or the other."""
    sign = -1 if backwards else 1
    for job_id in stage.stop_requested()[::sign]:
        stage.preempted(job_id)
    for job_id in stage.running()[::sign]:
        if stage.job(job_id).started_at_ms is None:
            stage.start(job_id)
    stage.advance(17 * MINUTE_MS)
    for job_id in stage.running()[number % 2 :: 2][::sign]:
        stage.finish(job_id)


@given(twins())
def test_equal_inputs_in_another_order_give_the_same_decisions(pair: Twins) -> None:
    stages = [SchedulerHarness(fresh_state(world)) for world in pair.worlds]
    decided: list[tuple[Decision, ...]] = []
    for number, batches in enumerate(pair.batches):
        for stage, batch in zip(stages, batches, strict=True):
            submit_all(stage, batch)
        for _ in range(2):
            decided = [stage.cycle() for stage in stages]
            assert decided[0] == decided[1]
            for backwards, stage in enumerate(stages):
                go_on(stage, number, backwards=bool(backwards))
    assert len(decided) == 2
