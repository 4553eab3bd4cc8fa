"""The job file of the example is valid."""

from __future__ import annotations

from bursar.config.job.job_file import JobDefaults, parse_job
from tests.sdk.writing import ROOT


def test_its_job_file_is_valid() -> None:
    text = (ROOT / "examples" / "spot-training" / "job.yaml").read_text(encoding="utf-8")
    job = parse_job(text, "job.yaml", JobDefaults(default_queue="research", now_ms=0))
    assert job.recipe.run == "exec python train.py\n"
    assert (job.recipe.stop_signal, job.recipe.grace_seconds) == ("SIGTERM", 20)
    assert set(job.recipe.envs) == {"CHECKPOINT_DIR", "STEPS", "SAVE_EVERY"}
