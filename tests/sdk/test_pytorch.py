"""Real PyTorch: complete states, shards, and another number of ranks."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bursar.sdk import PREEMPTED_EXIT, CheckpointProblem, checkpointing
from bursar.sdk.adapters.pytorch import TrainingState, restore_random_state
from tests.sdk.writing import environment

pytestmark = pytest.mark.real
torch: Any = pytest.importorskip(
    "torch", reason="torch is not installed: pip install torch==2.13.0", exc_type=ImportError
)


def parts(seed: int) -> dict[str, Any]:
    torch.manual_seed(seed)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    return {"model": model, "optimizer": optimizer}


def test_everything_is_restored_including_random_generators(tmp_path: Path) -> None:
    numpy: Any = pytest.importorskip("numpy", reason="numpy is not installed")
    first, second = parts(1), parts(2)
    with checkpointing(tmp_path) as run:
        assert TrainingState(**first).resume(run) == 0
        TrainingState(**first).save(run, 9)
        drawn = [torch.rand(3).tolist(), random.random(), numpy.random.rand()]
        restore_of = TrainingState(**second)
        assert restore_of.resume(run) == 9
    assert [torch.rand(3).tolist(), random.random(), numpy.random.rand()] == drawn
    for name, tensor in first["model"].state_dict().items():
        assert torch.equal(tensor, second["model"].state_dict()[name])
    moments = [part["optimizer"].state_dict()["state"][0]["exp_avg"] for part in (first, second)]
    assert torch.equal(*moments)


def test_other_parts_are_rejected_by_name(tmp_path: Path) -> None:
    with checkpointing(tmp_path) as run:
        TrainingState(**parts(1)).save(run, 1)
        with pytest.raises(CheckpointProblem, match="differ in optimizer"):
            TrainingState(model=parts(1)["model"]).resume(run)
    with pytest.raises(CheckpointProblem, match="position is a dict"):
        TrainingState(position={})


def test_a_missing_generator_is_ignored() -> None:
    restore_random_state({"python": random.getstate(), "torch": torch.get_rng_state()})


GANG = """
import json, os, sys
import torch, torch.distributed as dist
from bursar.sdk import checkpointing
from bursar.sdk.adapters.elastic import SampleOrder, agree_to_stop, world
from bursar.sdk.adapters.pytorch import ModelAndOptimizer, resume_sharded, save_sharded

dist.init_process_group("gloo")
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(1, 1, bias=False)
order = SampleOrder(120, seed=3)
app = {"app": ModelAndOptimizer(model, torch.optim.SGD(model.parameters(), lr=0.01)), "order": order}
with checkpointing(sys.argv[1]) as run:
    step = resume_sharded(run, app)
    for batch in order.upcoming(12):
        loss = (model(torch.tensor(batch).float().unsqueeze(1)) / 100).sum()
        model.zero_grad()
        loss.backward()
        dist.all_reduce(model.weight.grad)
        with torch.no_grad():
            model.weight -= 0.01 * model.weight.grad
        order.advance(12)
        step += 1
        with open(f"{sys.argv[1]}.seen", "a") as file:
            file.write("".join(f"{sample}\\n" for sample in batch))
        save_sharded(run, step, app)
        if step == int(sys.argv[2]):
            break
    assert not agree_to_stop(run)
    if world().rank == 0:
        print("weight", model.weight.item(), flush=True)
dist.barrier()
dist.destroy_process_group()
os._exit(0)  # torch's gloo threads may outlive the group, and then abort a process that ends by itself
"""


def torchrun(folder: Path, ranks: int, until: int) -> float:
    script = folder / "gang.py"
    script.write_text(GANG)
    arguments = [
        "--standalone",
        f"--nproc-per-node={ranks}",
        str(script),
        str(folder / "c"),
        str(until),
    ]
    ran = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment(OMP_NUM_THREADS="1"),
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return float(ran.stdout.split("weight ")[1].split()[0])


def test_shards_are_resumed_by_another_number_of_ranks(tmp_path: Path) -> None:
    """torchrun with two ranks, then three, then one: each sample once, and the same weight in the end."""
    (tmp_path / "alone").mkdir()
    (tmp_path / "gang").mkdir()
    alone = torchrun(tmp_path / "alone", 1, 10)
    for ranks, until in ((2, 4), (3, 7), (1, 10)):
        weight = torchrun(tmp_path / "gang", ranks, until)
    assert weight == pytest.approx(alone, rel=1e-6)
    seen = (tmp_path / "gang" / "c.seen").read_text().split()
    assert sorted(map(int, seen)) == list(range(120))


LOADER = """
import sys, time
import torch
from bursar.sdk import checkpointing
from bursar.sdk.adapters.pytorch import survive_stop_signals

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 100_000
    def __getitem__(self, number):
        time.sleep(0.005)
        return number

loader = torch.utils.data.DataLoader(Rows(), num_workers=2, worker_init_fn=survive_stop_signals)
with checkpointing(sys.argv[1]) as run:
    after = 0
    for step, rows in enumerate(loader):
        if step == 5:
            print("ready", flush=True)
        after += run.should_stop
        if after == 20:
            run.save(step, lambda folder: (folder / "w").write_text("x"))
"""


def test_workers_of_a_loader_survive_a_signal_to_the_process_group(tmp_path: Path) -> None:
    """The workers deliver twenty more batches after the signal; then the job exits."""
    job = subprocess.Popen(
        [sys.executable, "-c", LOADER, str(tmp_path / "c")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(OMP_NUM_THREADS="1"),
        process_group=0,
    )
    assert job.stdout is not None and job.stdout.readline() == "ready\n"
    os.killpg(job.pid, signal.SIGTERM)
    _, errors = job.communicate(timeout=120)
    assert job.returncode == PREEMPTED_EXIT, errors
