"""Routes of jobs: the queue's own quota first, then borrowing; and the sbatch command."""

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


def test_own_quota_is_used_first() -> None:
    route = routed()
    assert (route.account, route.qos, route.gres_type) == ("vision", "vision", "t4")
    assert route.partitions == ("training", "inference")
    assert route.why == "within the queue's own quota"


def test_an_ignored_priority_class_is_noted() -> None:
    route = routed(f"{JOB}priority: high\n")
    assert route.why.endswith("its priority class high has no effect in Slurm")


def test_a_job_beyond_the_own_quota_borrows() -> None:
    route = routed(used={"vision": {"gres/gpu": 8, "gres/gpu:t4": 8}})
    assert route.qos == "vision-borrow"
    assert "gres/gpu:t4: 8 of 8 in use, 4 requested" in route.why


def test_a_queue_that_may_not_borrow_waits_for_its_own_quota() -> None:
    route = routed(JOB.replace("Vision", "serving"), {"serving": {"gres/gpu:t4": 8, "gres/gpu": 8}})
    assert route.qos == "serving"
    assert "may not borrow" in route.why


def test_a_queue_without_its_own_quota_borrows() -> None:
    assert routed(JOB.replace("Vision", "guests")).qos == "guests-borrow"


def test_only_partitions_with_fitting_nodes_are_chosen() -> None:
    route = routed(JOB.replace("T4:4", "A100:8"))
    assert (route.partitions, route.gres_type) == (("training",), "a100")


def test_a_job_that_takes_any_gpu_names_no_type() -> None:
    assert routed(JOB.replace('"T4:4"', "2")).gres_type is None


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [("T4:4", "T4:8", "never-fits"), ("Vision", "acme", "no-such-queue")],
)
def test_a_job_that_cannot_run_is_refused(before: str, after: str, code: str) -> None:
    with pytest.raises(UserError) as refused:
        routed(JOB.replace(before, after))
    assert refused.value.code == code


def test_the_sbatch_command_has_all_options_of_the_route() -> None:
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


def test_a_job_with_files_is_refused() -> None:
    job = parse_job(JOB, "job.yaml")
    with pytest.raises(UserError, match="has a workdir or mounts"):
        batch_script(job.spec, replace(job.recipe, workdir="0" * 64))


def test_a_job_with_secrets_is_refused() -> None:
    job = parse_job(JOB, "job.yaml")
    with pytest.raises(UserError, match="TOKEN"):
        batch_script(job.spec, replace(job.recipe, secrets={"TOKEN": "x"}))


# -- usage and promotion -----------------------------------------------------------------------------


def test_pending_jobs_count_as_usage() -> None:
    commands = FakeSlurm(
        {"squeue": "vision|1|gres:gpu:t4:4\nvision|2|gres:gpu:t4:2\nother|1|N/A\n"}
    )
    assert used_by_qos(commands) == {"vision": {"gres/gpu": 8, "gres/gpu:t4": 8}, "other": {}}
    assert requested_gpus("gres/gpu:3", 2) == {"gres/gpu": 6}


def test_pending_jobs_move_to_their_own_quota_while_it_is_free() -> None:
    queue = "vision|1|gres:gpu:t4:4\nvision-borrow|1|gres:gpu:t4:4\nvision-borrow|1|gres:gpu:t4:4\n"
    waiting = (
        "21|vision-borrow|1|gres:gpu:t4:4\n22|vision-borrow|1|gres:gpu:t4:4\n23|vision|1|N/A\n"
    )
    commands = FakeSlurm(
        {"squeue -a -r -h -t PD -o": waiting, "squeue": queue, "scontrol update": ""}
    )
    moves = promotions(commands, SETUP)
    assert moves == (Promotion(job_id="21", qos="vision"),)
    promote(commands, moves)
    assert commands.asked[-1] == ("scontrol", "update", "jobid=21", "qos=vision")
