"""Builds the objects and puts them together; the only module that may import everything.

Imports stand inside the functions: a command pays for what it uses, and ``--help`` for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bursar.model.errors import UserError

if TYPE_CHECKING:
    from bursar.simulate.measures.plain import Plain
    from bursar.simulate.readers import TraceSummary
    from bursar.simulate.report_text import Line
    from bursar.simulate.scenario import Delays
    from bursar.simulate.study import (
        Board,
        FleetChoice,
        PreparedRun,
        RunOutcome,
        RunRequest,
        WorkloadOptions,
    )
    from bursar.simulate.study.whatif import WhatIf
    from bursar.simulate.trace import Trace


def demo(*, seed: int, verbose: bool) -> Iterator[Line]:
    """A simulated day of a demonstration fleet, told line by line."""
    from bursar.core.check import require_sound
    from bursar.simulate.demo import demonstration
    from bursar.simulate.loop import Simulation
    from bursar.simulate.report_text import tell

    return tell(Simulation(demonstration(seed), check=require_sound), verbose=verbose)


# -- studies ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyOptions:
    """What a user says about a run besides trace, fleet and policy. Times are in seconds."""

    format: str | None = None
    limit: int | None = None
    one_queue: bool = False
    pin_label: str | None = None
    any_model: bool = False
    spot: bool = False
    mig: bool = False
    checkpoint_seconds: int | None = None
    restart_seconds: int = 0
    retries: int = 0
    start_seconds: int = 20
    stop_seconds: int = 30
    seed: int = 0
    faults: str = ""
    log: str | None = None


def prepare_run(source: str, fleet: str, policy: str, options: StudyOptions) -> PreparedRun:
    """Everything that one run needs, read and checked."""
    from bursar.simulate.study import prepare

    return prepare(_requests(source, [fleet], [policy], options)[0])


def compare_runs(
    source: str,
    fleets: Sequence[str],
    policies: Sequence[str],
    options: StudyOptions,
    board: Board,
) -> tuple[tuple[RunOutcome, ...], int]:
    """Every policy on every fleet, each in a process of its own, and how many runs were asked for."""
    from bursar.simulate.policies import choose_policy
    from bursar.simulate.study import run_side_by_side

    requests = _requests(source, fleets, policies, options)
    for request in requests:
        choose_policy(request.policy, request.fleet.policies)
    return run_side_by_side(requests, board), len(requests)


def prepare_whatif(log: str, changes: Sequence[str]) -> WhatIf:
    """A recorded history, ready to run as it was and with something changed."""
    from bursar.simulate.study.whatif import prepare_whatif as prepare_both

    return prepare_both(Path(log), changes)


def _requests(
    source: str, fleets: Sequence[str], policies: Sequence[str], options: StudyOptions
) -> list[RunRequest]:
    from bursar.simulate.policies import FLEET
    from bursar.simulate.study import RunRequest

    chosen = [_fleet(path) for path in fleets]
    made = []
    for fleet in chosen:
        for policy in policies or [""]:
            named = policy or FLEET
            shown = [fleet.name] if len(chosen) > 1 else []
            shown += [named] if len(policies) > 1 or not shown else []
            made.append(
                RunRequest(
                    name=" ".join(shown),
                    source=source,
                    fleet=fleet,
                    policy=policy,
                    workload=_workload(options),
                    seed=options.seed,
                    faults=options.faults,
                    delays=_delays(options),
                    log=Path(options.log) if options.log else None,
                )
            )
    return made


def _fleet(path: str) -> FleetChoice:
    from bursar.config import read_fleet
    from bursar.simulate.study import FleetChoice

    read = read_fleet(Path(path))
    return FleetChoice(
        name=Path(path).stem, fleet=read.fleet, tenants=read.tenants, policies=read.policies
    )


def _workload(options: StudyOptions) -> WorkloadOptions:
    from bursar.model.job import Checkpoint
    from bursar.model.units import SECOND_MS
    from bursar.simulate.study import WorkloadOptions

    every = options.checkpoint_seconds
    return WorkloadOptions(
        format=options.format,
        limit=options.limit,
        teams_share_a_queue=options.one_queue,
        pin_label=options.pin_label,
        any_model=options.any_model,
        may_use_spot=options.spot,
        parts_are_slices=options.mig,
        checkpoint=Checkpoint(
            interval_ms=None if every is None else every * SECOND_MS,
            restart_ms=options.restart_seconds * SECOND_MS,
        ),
        retries=options.retries,
    )


def _delays(options: StudyOptions) -> Delays:
    from bursar.model.units import SECOND_MS
    from bursar.simulate.scenario import Delays

    return Delays(
        start_ms=options.start_seconds * SECOND_MS, stop_ms=options.stop_seconds * SECOND_MS
    )


# -- what came of them -----------------------------------------------------------------------------


def tell_run(outcome: RunOutcome) -> str:
    """One run as text."""
    from bursar.simulate.study.text import tell_run as tell_one

    return tell_one(outcome)


def tell_comparison(outcomes: Sequence[RunOutcome]) -> str:
    """Several runs as one table."""
    from bursar.simulate.study.text import tell_comparison as tell_several

    return tell_several(outcomes)


def comparison_json(outcomes: Sequence[RunOutcome]) -> dict[str, Plain]:
    """The table for programs, and what is said about each run."""
    from bursar.simulate.measures import compare_json

    runs: list[Plain] = []
    for outcome in outcomes:
        run = outcome.as_json()
        run.pop("summary")
        runs.append({"name": outcome.summary.name, **run})
    return {**compare_json([one.summary for one in outcomes]), "about": runs}


def page_of(outcomes: Sequence[RunOutcome]) -> str:
    """The same as a page with plots, in one file that needs no network."""
    from bursar.simulate.page import page_html

    return page_html([one.summary for one in outcomes], [one.series for one in outcomes])


# -- traces ----------------------------------------------------------------------------------------


def describe_trace(source: str, format: str | None, fleet: str | None, seed: int) -> TraceSummary:
    """What a trace is like; with a fleet also how much of it the trace would fill."""
    from bursar.simulate.readers import describe

    gpus = _fleet(fleet).gpus if fleet else None
    return describe(_trace(source, format, gpus, seed), gpus=gpus)


def _trace(source: str, format: str | None, gpus: int | None, seed: int) -> Trace:
    from bursar.simulate.study.workload import Source, open_workload

    return open_workload(Source(name=source, format=format, seed=seed, gpus=gpus)).trace()


def trace_json(summary: TraceSummary) -> dict[str, Plain]:
    """A description for programs; bad rows are counted, and the first ones told."""
    from bursar.simulate.measures.plain import plain
    from bursar.simulate.readers.describe import SHOWN_BAD_ROWS

    made = plain(summary)
    assert isinstance(made, dict)
    first = [str(row) for row in summary.bad_rows[:SHOWN_BAD_ROWS]]
    return {**made, "bad_rows": {"count": len(summary.bad_rows), "first": [*first]}}


def convert_trace(source: str, format: str | None, out: str, seed: int) -> TraceSummary:
    """Write a trace in our own form, and say what it is like."""
    from bursar.simulate.readers import describe, write_trace

    trace = _trace(source, format, None, seed)
    try:
        write_trace(trace, out)
    except OSError as error:
        raise cannot_write(out, error) from error
    return describe(trace)


def cannot_write(path: str, error: OSError) -> UserError:
    """Why a file of ours could not be written."""
    return UserError(
        f"{path} cannot be written: {error.strerror or error}.",
        fix="Name a file in a folder that exists and that you may write to.",
        code="cannot-write",
    )
