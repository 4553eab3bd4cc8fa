"""A control plane that is killed repeatedly while nodes of its jobs are interrupted.

Run as a program: ``python -m tests.crash.taken_away FOLDER SEED LIVES``. As in ``lives.py``, and besides each
life takes nodes away at moments that the seed chooses, half of them after a notice. Jobs that are stopped
say so and leave with the code that asks for another try.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

from bursar.control.control_plane import ControlPlane
from bursar.control.requests.submission import Submission
from bursar.engines.local.engine import LocalEngine
from bursar.model.fleet.fleet import EngineKind
from tests.crash import lives

SCRIPT = """
say() {
  echo "$1 $BURSAR_JOB_ID $BURSAR_ATTEMPT $BURSAR_NODE $CUDA_VISIBLE_DEVICES $(date +%s%N)" >> "$EFFECTS"
}
trap 'say end; exit 85' TERM
say begin
for part in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep "$NAP"; done
say end
"""
NODE = "t4-0001"
"""The other node stays: a job that no node could run is refused."""
NOTICES_MS = (0, 0, 400, 900)
LONGEST_ABSENCE_MS = 600


class Life(lives.Life):
    """The work of one process, with nodes that are lost and return."""

    def _submit(self, plane: ControlPlane) -> None:
        chance = random.Random(f"{self.seed} {self.number} nodes")
        engine = plane._engines[EngineKind.LOCAL]
        assert isinstance(engine, LocalEngine)

        def take_away() -> None:
            for _ in range(4):
                time.sleep(chance.random() * 0.5)
                notice_ms = chance.choice(NOTICES_MS)
                absence_ms = chance.randrange(LONGEST_ABSENCE_MS)
                engine.interrupt(NODE, notice_ms, absence_ms)

        taker = threading.Thread(target=take_away, daemon=True)
        taker.start()
        super()._submit(plane)
        taker.join()

    def _job(self, chance: random.Random) -> Submission:
        job = super()._job(chance)
        return replace(job, recipe=replace(job.recipe, run=SCRIPT, grace_seconds=5))


def main() -> None:
    folder, seed, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    print(json.dumps(lives.run_lives(folder, seed, count, Life)))


if __name__ == "__main__":
    main()
