"""``python -m benchmarks [name ...]``: run benchmarks and print one table."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable

from benchmarks import (
    churn,
    compiled,
    engine,
    gangs,
    kueue,
    ledger,
    live,
    openb,
    orders,
    replay,
    slivers,
    slurm,
    spot,
    spot_loop,
    store,
    submits,
)
from benchmarks.figure import Figure, write_table

SUITES: dict[str, Callable[[], list[Figure]]] = {
    "churn": churn.figures,
    "kueue": kueue.figures,
    "gangs": gangs.figures,
    "slivers": slivers.figures,
    "replay": replay.figures,
    "compiled": compiled.figures,
    "openb": openb.figures,
    "orders": orders.figures,
    "store": store.figures,
    "engine": engine.figures,
    "submits": submits.figures,
    "live": live.figures,
    "slurm": slurm.figures,
    "ledger": ledger.figures,
    "spot": spot.figures,
    "spot-loop": spot_loop.figures,
}


def main(names: list[str]) -> int:
    """Run the named suites, or all of them."""
    unknown = sorted(set(names) - set(SUITES))
    if unknown:
        known = ", ".join(SUITES)
        sys.stderr.write(f"error: unknown benchmark {unknown[0]}\nfix: choose from {known}\n")
        return 2
    figures: list[Figure] = []
    for name in names or SUITES:
        sys.stderr.write(f"running {name} ...\n")
        figures += SUITES[name]()
    system = f"{platform.python_implementation()} {platform.python_version()}, {platform.machine()}"
    sys.stdout.write(f"{system}; one process, CPU time\n\n{write_table(figures)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
