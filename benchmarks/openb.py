"""(g) Alibaba's openb trace, pod by pod, through the simulator with the full core.

The reference is the simulator of the paper that introduced the fragmentation gradient (FGD), with 10,866 pods
on the same 1,213 nodes. ``python -m benchmarks.openb`` prints the table of `docs/validity.md`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from benchmarks.figure import Figure, Stopwatch, peak_memory_gb
from bursar.model.tenants.policy import PlacementPolicy
from studies.fragmentation.placement_study import DEFAULT, FOLDER, WORKLOADS, PlacementStudy

TRACES = Path(os.environ.get("BURSAR_TRACES") or Path(__file__).parents[2] / "shared" / "traces")
POLICIES = (
    PlacementPolicy.FRAGMENTATION_GRADIENT,
    PlacementPolicy.REMAINING_CAPACITY,
    PlacementPolicy.BEST_FIT,
)
SEEDS = (42, 43)


def figures() -> list[Figure]:
    """Pods placed per CPU-second, until the requested GPUs equal the cluster's GPUs."""
    if not (TRACES / FOLDER).exists():
        return [
            Figure(
                scenario="(g) openb, pod by pod",
                what="not run",
                measured="-",
                reference=f"no trace at {TRACES / FOLDER}; set BURSAR_TRACES",
            )
        ]
    rows = [_place(placement) for placement in POLICIES]
    rows.append(
        Figure(
            scenario="(g) openb, pod by pod",
            what="peak memory",
            measured=f"{peak_memory_gb():.2f} GB",
            reference="FGD's own simulator (Go) 4.2 GB",
        )
    )
    return rows


def _place(placement: PlacementPolicy) -> Figure:
    study = PlacementStudy(TRACES, DEFAULT, placement, load=1.0)
    target = "target 4,000; " if placement is POLICIES[0] else ""
    watch = Stopwatch()
    with watch.lap():
        percent = study.place()
    return Figure(
        scenario=f"(g) {study.arrived:,} openb pods on 6,212 GPUs, {placement}",
        what=f"pods per CPU-second ({percent:.1f} % of GPUs allocated)",
        measured=f"{study.arrived / watch.total:,.0f}",
        reference=f"{target}FGD's own simulator (Go) 2.7",
    )


def write_table() -> None:
    """Print the allocated share of all GPUs by workload and policy, in percent: means over seeds."""
    sys.stdout.write("workload " + " ".join(PlacementPolicy) + "\n")
    for workload in WORKLOADS:
        percentages = []
        for placement in PlacementPolicy:
            studies = [
                PlacementStudy(TRACES, workload, placement, seed=seed, load=1.0) for seed in SEEDS
            ]
            percentages.append(sum(study.place() for study in studies) / len(SEEDS))
        sys.stdout.write(f"{workload} {' '.join(f'{percent:.2f}' for percent in percentages)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    write_table()
