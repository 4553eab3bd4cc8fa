"""``python -m studies``: the ``bursar`` command reads papers' formats, in worker processes too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.tidy.source import ROOT

BENCH = "job_id,submit_s,num_gpus,duration_s,vc\n1,0,4,57,a\n2,5,8,600,b\n"


def test_policies_are_compared_on_a_paper_s_format(tmp_path: Path) -> None:
    trace = tmp_path / "bench.csv"
    trace.write_text(BENCH)
    fleet = ROOT / "examples" / "philly-week" / "fleet.yaml"
    command = [sys.executable, "-m", "studies", "compare", str(trace), "--fleet", str(fleet)]
    command += ["--any-model", "--policy", "fifo", "--policy", "sjf"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "jobs succeeded" in done.stdout
