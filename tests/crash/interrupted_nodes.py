"""A control plane that is killed repeatedly while nodes of its jobs are interrupted.

Run as a program: ``python -m tests.crash.interrupted_nodes FOLDER SEED KILLS``. As in
``killed_processes.py``; in addition each process interrupts nodes at times that the seed chooses, half of
them after a notice. Stopped jobs record it and exit with the code that requests a requeue.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

from bursar.config.job.job_file import JobDocument
from bursar.control.control_plane import ControlPlane
from bursar.engines.local.engine import LocalEngine
from bursar.model.fleet.fleet import EngineKind
from tests.crash.killed_processes import ControlPlaneProcess, run_processes

SCRIPT = """
record() {
  echo "$1 $BURSAR_JOB_ID $BURSAR_ATTEMPT $BURSAR_NODE $CUDA_VISIBLE_DEVICES $(date +%s%N)" >> "$EFFECTS"
}
trap 'record end; exit 85' TERM
record begin
for part in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep "$NAP"; done
record end
"""
NODE = "t4-0001"
"""The other node is never interrupted: a job that no node could run is refused."""
NOTICES_MS = (0, 0, 400, 900)
LONGEST_ABSENCE_MS = 600


class InterruptedControlPlane(ControlPlaneProcess):
    """A control plane whose nodes are lost and return."""

    def _submit(self, plane: ControlPlane) -> None:
        chance = random.Random(f"{self.seed} {self.number} nodes")
        engine = plane._engines[EngineKind.LOCAL]
        assert isinstance(engine, LocalEngine)

        def interrupt_nodes() -> None:
            for _ in range(4):
                time.sleep(chance.random() * 0.5)
                notice_ms = chance.choice(NOTICES_MS)
                absence_ms = chance.randrange(LONGEST_ABSENCE_MS)
                engine.interrupt(NODE, notice_ms, absence_ms)

        interrupter = threading.Thread(target=interrupt_nodes, daemon=True)
        interrupter.start()
        super()._submit(plane)
        interrupter.join()

    def _job(self, chance: random.Random) -> JobDocument:
        job = super()._job(chance)
        return replace(job, recipe=replace(job.recipe, run=SCRIPT, grace_seconds=5))


def main() -> None:
    folder, seed, kills = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    print(json.dumps(run_processes(folder, seed, kills, InterruptedControlPlane)))


if __name__ == "__main__":
    main()
