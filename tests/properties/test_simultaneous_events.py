"""Simultaneous events may come in any order: the decisions are the same."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.vendor.pretty import RepresentationPrinter

from bursar.core.admission.admission_request import AdmissionRequest
from bursar.core.admission.admit import submissions
from bursar.model.decision import Decision
from bursar.model.errors import UserError
from bursar.model.jobs.job import JobSpec
from bursar.model.units import MINUTE_MS
from tests.properties.random_steps import ANY_WORLD, fresh_state
from tests.properties.worlds import World, brief, known_models, specs
from tests.support import SchedulerHarness

Named = tuple[str, JobSpec]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A world and its batches of jobs, in two orders."""

    worlds: tuple[World, World]
    batches: tuple[tuple[tuple[Named, ...], tuple[Named, ...]], ...]

    def _repr_pretty_(self, printer: RepresentationPrinter, _cycle: bool) -> None:
        lines = [brief(self.worlds[0])]
        for batch, shuffled in self.batches:
            lines += [brief(one) for one in batch] + [str([job_id for job_id, _ in shuffled])]
        printer.text("\n".join(lines))


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
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
    return Pair(worlds=(world, shuffled), batches=tuple(batches))


def submit_all(harness: SchedulerHarness, batch: tuple[Named, ...]) -> None:
    for job_id, spec in batch:
        with suppress(UserError):
            request = AdmissionRequest(
                spec=spec,
                job_id=job_id,
                at_ms=harness.now_ms,
                state=harness.state,
                known_models=known_models(),
            )
            for event in submissions(request):
                harness.apply(event)


def report_all(harness: SchedulerHarness, number: int, *, backwards: bool) -> None:
    """Applies simultaneous reports, in one order or the other."""
    sign = -1 if backwards else 1
    for job_id in harness.stop_requested()[::sign]:
        harness.preempted(job_id)
    for job_id in harness.running()[::sign]:
        if harness.job(job_id).started_at_ms is None:
            harness.start(job_id)
    harness.advance(17 * MINUTE_MS)
    for job_id in harness.running()[number % 2 :: 2][::sign]:
        harness.finish(job_id)


@given(pairs())
def test_equal_inputs_in_another_order_give_the_same_decisions(pair: Pair) -> None:
    harnesses = [SchedulerHarness(fresh_state(world)) for world in pair.worlds]
    decided: list[tuple[Decision, ...]] = []
    for number, batches in enumerate(pair.batches):
        for harness, batch in zip(harnesses, batches, strict=True):
            submit_all(harness, batch)
        for _ in range(2):
            decided = [harness.cycle() for harness in harnesses]
            assert decided[0] == decided[1]
            for backwards, harness in enumerate(harnesses):
                report_all(harness, number, backwards=bool(backwards))
    assert len(decided) == 2
