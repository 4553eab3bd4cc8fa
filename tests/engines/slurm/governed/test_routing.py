"""Where a job of ours goes: its queue's own quota first, then what it may borrow; and the sbatch words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bursar.config import parse_fleet
from bursar.config.job.job_file import parse_job
from bursar.engines.slurm.governed.batch import batch_options, batch_script
from bursar.engines.slurm.governed.gres_names import GresNames
from bursar.engines.slurm.governed.render import RenderOptions, render
from bursar.engines.slurm.governed.routing import (
    Promotion,
    SlurmRoute,
    promote,
    promotions,
    requested_gpus,
    route,
    used_by_qos,
)
from bursar.model.errors import UserError
from tests.engines.slurm.governed.fake_slurm import FakeSlurm
from tests.engines.slurm.governed.test_render import FLEET

FILE = parse_fleet({"fleet.yaml": FLEET})
SETUP = render(FILE.fleet, FILE.tenants, FILE.policies, RenderOptions(cluster="site"))
NAMES = GresNames(FILE.fleet, "site", {})
JOB = """
name: train
queue: Vision
resources: {accelerators: "T4:4"}
max_hours: 1.5
envs: {EPOCHS: "3", NOTE: it's}
setup: echo ready
run: python train.py
"""


def routed(text: str = JOB, used: dict[str, dict[str, int]] | None = None) -> SlurmRoute:
    return route(parse_job(text, "job.yaml").spec, SETUP, NAMES, used or {})


def test_own_quota_comes_first() -> None:
    found = routed()
    assert (found.account, found.qos, found.gres_type) == ("vision", "vision", "t4")
    assert found.partitions == ("training", "inference")
    assert found.why == "within the queue's own quota"


def test_a_priority_class_that_does_not_count_is_told() -> None:
    found = routed(f"{JOB}priority: high\n")
    assert found.why.endswith("its priority class high has no effect in Slurm")


def test_what_is_above_it_is_borrowed() -> None:
    found = routed(used={"vision": {"gres/gpu": 8, "gres/gpu:t4": 8}})
    assert found.qos == "vision-borrow"
    assert "gres/gpu:t4: 8 of 8 in use, 4 requested" in found.why


def test_a_queue_that_may_not_borrow_waits_for_its_own_quota() -> None:
    found = routed(JOB.replace("Vision", "serving"), {"serving": {"gres/gpu:t4": 8, "gres/gpu": 8}})
    assert found.qos == "serving"
    assert "may not borrow" in found.why


def test_a_queue_without_its_own_quota_borrows() -> None:
    assert routed(JOB.replace("Vision", "guests")).qos == "guests-borrow"


def test_only_partitions_whose_nodes_fit() -> None:
    found = routed(JOB.replace("T4:4", "A100:8"))
    assert (found.partitions, found.gres_type) == (("training",), "a100")


def test_a_job_that_takes_any_gpu_names_no_type() -> None:
    assert routed(JOB.replace('"T4:4"', "2")).gres_type is None


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [("T4:4", "T4:8", "never-fits"), ("Vision", "acme", "no-such-queue")],
)
def test_what_cannot_run_is_refused(before: str, after: str, code: str) -> None:
    with pytest.raises(UserError) as refused:
        routed(JOB.replace(before, after))
    assert refused.value.code == code


def test_sbatch_is_told_all_of_it() -> None:
    job = parse_job(JOB, "job.yaml")
    assert batch_options(job.spec, job.recipe, routed()) == (
        "--job-name=train",
        "--account=vision",
        "--partition=training,inference",
        "--nodes=1",
        "--ntasks-per-node=1",
        "--requeue",
        "--signal=B:TERM@30",
        "--qos=vision",
        "--gres=gpu:t4:4",
        "--time=01:30:00",
    )
    assert batch_script(job.spec, job.recipe) == (
        "#!/bin/bash\nexport EPOCHS=3\nexport NOTE='it'\"'\"'s'\necho ready\npython train.py\n"
    )


def test_a_gang_runs_on_every_node() -> None:
    job = parse_job(JOB + "num_nodes: 2\n", "job.yaml")
    assert "--nodes=2" in batch_options(job.spec, job.recipe, routed())
    assert "srun --ntasks-per-node=1 /bin/bash -c 'python train.py'" in batch_script(
        job.spec, job.recipe
    )


def test_files_cannot_come_along() -> None:
    job = parse_job(JOB, "job.yaml")
    with pytest.raises(UserError, match="has a workdir or mounts"):
        batch_script(job.spec, replace(job.recipe, workdir="0" * 64))


def test_secrets_are_not_left_with_slurm() -> None:
    job = parse_job(JOB, "job.yaml")
    with pytest.raises(UserError, match="TOKEN"):
        batch_script(job.spec, replace(job.recipe, secrets={"TOKEN": "x"}))


# -- what is used ------------------------------------------------------------------------------------


def test_what_waits_counts_as_used() -> None:
    said = FakeSlurm({"squeue": "vision|1|gres:gpu:t4:4\nvision|2|gres:gpu:t4:2\nother|1|N/A\n"})
    assert used_by_qos(said) == {"vision": {"gres/gpu": 8, "gres/gpu:t4": 8}, "other": {}}
    assert requested_gpus("gres/gpu:3", 2) == {"gres/gpu": 6}


def test_waiting_jobs_move_to_their_own_quota_while_it_has_room() -> None:
    queue = "vision|1|gres:gpu:t4:4\nvision-borrow|1|gres:gpu:t4:4\nvision-borrow|1|gres:gpu:t4:4\n"
    waiting = (
        "21|vision-borrow|1|gres:gpu:t4:4\n22|vision-borrow|1|gres:gpu:t4:4\n23|vision|1|N/A\n"
    )
    said = FakeSlurm({"squeue -a -r -h -t PD -o": waiting, "squeue": queue, "scontrol update": ""})
    found = promotions(said, SETUP)
    assert found == (Promotion(job_id="21", qos="vision"),)
    promote(said, found)
    assert said.asked[-1] == ("scontrol", "update", "jobid=21", "qos=vision")
