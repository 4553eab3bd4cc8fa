"""Real Lightning, Hugging Face and TensorFlow: they resume after a signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from bursar.sdk import PREEMPTED_EXIT
from tests.sdk.writing import environment

pytestmark = pytest.mark.real


def job(folder: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = folder / "job.py"
    script.write_text(textwrap.dedent(code))
    quiet = {"HF_HUB_OFFLINE": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        [sys.executable, str(script), str(folder / "c"), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=folder,
        env=environment(HOME=str(folder), **quiet),
        check=False,
    )


def last_line(ran: subprocess.CompletedProcess[str], name: str) -> list[str]:
    lines = [line for line in ran.stdout.splitlines() if line.startswith(name)]
    assert lines, ran.stderr
    return lines[-1].split()[1:]


LIGHTNING = """
    import os, signal, sys
    import torch, lightning.pytorch as pl
    from bursar.sdk import checkpointing
    from bursar.sdk.adapters.lightning import checkpoint_callback, resume_path

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
        def training_step(self, batch, index):
            if self.trainer.global_step == 13 and len(sys.argv) > 2:
                os.kill(os.getpid(), int(sys.argv[2]))
            return (self.layer(batch) - batch).square().mean()
        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.01)

    pl.seed_everything(1)
    rows = torch.arange(8.0).unsqueeze(1)
    model = Model()
    with checkpointing(sys.argv[1], leave=True) as run:
        trainer = pl.Trainer(
            max_steps=30, accelerator="cpu", logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False,
            callbacks=[checkpoint_callback(run, every_steps=10)],
        )
        path = resume_path(run)
        print("from", path, flush=True)
        trainer.fit(model, torch.utils.data.DataLoader(rows, batch_size=8), ckpt_path=path)
    print("end", trainer.global_step, model.layer.weight.item(), model.layer.bias.item())
"""

HUGGING_FACE = """
    import os, signal, sys
    import torch, transformers
    from bursar.sdk import checkpointing
    from bursar.sdk.adapters.huggingface import checkpoint_callback, resume_path

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
        def forward(self, x, labels):
            out = self.layer(x)
            return {"loss": (out - labels).square().mean(), "logits": out}

    class Interrupt(transformers.TrainerCallback):
        def on_step_begin(self, args, state, control, **more):
            if state.global_step == 13 and len(sys.argv) > 2:
                os.kill(os.getpid(), int(sys.argv[2]))

    transformers.set_seed(1)
    rows = [{"x": torch.tensor([float(n)]), "labels": torch.tensor([2.0 * n])} for n in range(32)]
    model = Model()
    args = transformers.TrainingArguments(
        output_dir="out", max_steps=30, save_strategy="steps", save_steps=10, save_total_limit=2,
        per_device_train_batch_size=4, report_to="none", disable_tqdm=True, use_cpu=True, learning_rate=0.01,
    )
    with checkpointing(sys.argv[1]) as run:
        trainer = transformers.Trainer(
            model=model, args=args, train_dataset=rows, callbacks=[checkpoint_callback(run), Interrupt()]
        )
        path = resume_path(run)
        print("from", path, flush=True)
        trainer.train(resume_from_checkpoint=path)
    print("end", trainer.state.global_step, model.layer.weight.item(), model.layer.bias.item())
"""

TENSORFLOW = """
    import os, signal, sys
    import tensorflow as tf
    from bursar.sdk import checkpointing
    from bursar.sdk.adapters import tensorflow as adapter

    weight = tf.Variable(5.0)
    seen = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(weight=weight, seen=seen)
    kept = tf.train.CheckpointManager(checkpoint, "own", max_to_keep=2)
    with checkpointing(sys.argv[1]) as run:
        step = adapter.resume(run, kept)
        print("from", step, flush=True)
        while step < 30:
            if step == 13 and len(sys.argv) > 2:
                os.kill(os.getpid(), int(sys.argv[2]))
            weight.assign(weight * 0.9)
            seen.assign_add(1)
            step += 1
            if step % 10 == 0 or run.should_stop:
                adapter.save(run, step, kept)
    print("end", step, weight.numpy().item(), seen.numpy().item())
"""

JOBS = {
    "lightning": ("lightning", LIGHTNING),
    "huggingface": ("transformers", HUGGING_FACE),
    "tensorflow": ("tensorflow", TENSORFLOW),
}


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_or_killed_training_ends_with_the_same_result(
    name: str, signum: signal.Signals, tmp_path: Path
) -> None:
    package, code = JOBS[name]
    found = subprocess.run(
        [sys.executable, "-c", f"import importlib.util as u; exit(not u.find_spec('{package}'))"],
        check=False,
    )
    if found.returncode:
        pytest.skip(f"{package} is not installed: pip install {package}")
    (tmp_path / "complete").mkdir()
    (tmp_path / "interrupted").mkdir()
    complete = job(tmp_path / "complete", code)
    interrupted = job(tmp_path / "interrupted", code, str(int(signum)))
    by_signal = signum is signal.SIGTERM
    assert interrupted.returncode == (PREEMPTED_EXIT if by_signal else -signum), interrupted.stderr
    saved = sorted(os.listdir(tmp_path / "interrupted" / "c"))
    assert saved[-1].endswith("step-14" if by_signal else "step-10")
    again = job(tmp_path / "interrupted", code)
    assert again.returncode == 0, again.stderr
    assert last_line(again, "from") != last_line(complete, "from")
    assert last_line(again, "end") == last_line(complete, "end")
