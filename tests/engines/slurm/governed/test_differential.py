"""Slurm and the simulator start the same work in the same order under matching policies."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from bursar.model.tenants.policy import SharePolicy
from tests.engines.slurm.governed.compare_starts import compare, page, turn_over_ms
from tests.engines.slurm.governed.same_work import (
    the_fleet,
    the_plan,
    the_setup,
    the_work,
    through_slurm,
    through_the_simulator,
)
from tests.support.shared_slurm_lab import needs_slurm, own_lab
from tests.tidy.source import ROOT

REPORT = (
    Path(os.environ.get("BURSAR_REPORTS", ROOT / "build" / "reports")) / "slurm-differential.md"
)


@pytest.mark.real
@needs_slurm
@pytest.mark.skipif(os.geteuid() != 0, reason="jobs of several users need root")
def test_slurm_and_the_simulator_start_the_same_work_in_the_same_order() -> None:
    file = the_fleet()
    setup, work = the_setup(file), the_work()
    with own_lab(the_plan(setup)) as lab:
        slurm = through_slurm(lab, setup, work)
    turn_ms = turn_over_ms(slurm)
    policies = file.policies
    flat = replace(policies, order=replace(policies.order, share=SharePolicy.NONE))
    greedy = replace(policies, backfill=replace(policies.backfill, reservations=0))
    comparisons = [
        compare(name, slurm, through_the_simulator(file, chosen, slurm, turn_over))
        for name, chosen, turn_over in (
            ("ours", policies, 0),
            ("ours, with Slurm's turn-over", policies, turn_ms),
            ("ours, without fair tree", flat, turn_ms),
            ("ours, without reservations", greedy, turn_ms),
        )
    ]
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(page(slurm, comparisons, turn_ms), encoding="utf-8")

    ours, matched, flat_one, _ = comparisons
    assert len(slurm) == len(work)
    assert ours.order_agreement > 0.9, REPORT.read_text(encoding="utf-8")
    assert flat_one.order_agreement < 0.6, "without fair tree the order should be another"
    mean_wait_ms = sum(ran.start_ms for ran in slurm) / len(slurm)
    assert abs(matched.mean_wait_ms - mean_wait_ms) < 0.2 * mean_wait_ms
    assert _first_to_last(matched.waits_by_queue_ms) == ["serving", "robots", "vision", "language"]


def _first_to_last(waits_ms: dict[str, float]) -> list[str]:
    return sorted(waits_ms, key=lambda queue: waits_ms[queue])
