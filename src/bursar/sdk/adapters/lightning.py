"""Lightning: its own checkpoint, at every so many steps and when the job is asked to stop.

Lightning keeps handlers that it finds when ``fit`` begins, so the signals reach both it and us. It ends
training by itself at the end of a batch; the callback has saved by then.
"""

from __future__ import annotations

import importlib
from typing import Any

from bursar.sdk.checkpointing import Run
from bursar.sdk.errors import CheckpointProblem

FILE = "lightning.ckpt"


def checkpoint_callback(run: Run, *, every_steps: int) -> Any:
    """For ``Trainer(callbacks=[...])``. It may stand beside a ``ModelCheckpoint`` that keeps the best."""
    pl = _lightning()

    class SaveToRun(pl.Callback):  # type: ignore[misc, name-defined]
        """Saves after a step of the optimiser, never between two batches that add up to one."""

        def __init__(self) -> None:
            self._saved_step = -1

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            del pl_module
            self._saved_step = trainer.global_step

        def on_train_batch_end(self, trainer: Any, *batch: Any) -> None:
            del batch
            step = trainer.global_step
            run.progress(step, None if trainer.max_steps < 0 else trainer.max_steps)
            stop = _agreed(trainer, run.should_stop)
            if step != self._saved_step and (stop or step % every_steps == 0):
                _save(run, trainer, step)
                self._saved_step = step
            if stop:
                run.leave()

    return SaveToRun()


def resume_path(run: Run) -> str | None:
    """For ``trainer.fit(..., ckpt_path=...)``."""
    found = run.resume()
    return None if found is None else str(found.path / FILE)


def _save(run: Run, trainer: Any, step: int) -> None:
    """All ranks call Lightning's save; which of them writes is the strategy's affair."""
    draft = run.begin(step) if run.saves else None
    path = trainer.strategy.broadcast(str(draft.path / FILE) if draft else None)
    trainer.save_checkpoint(path)
    if draft is not None:
        run.commit(draft)
    trainer.strategy.barrier()


def _agreed(trainer: Any, stop: bool) -> bool:
    if trainer.world_size == 1:
        return stop
    return bool(trainer.strategy.reduce_boolean_decision(stop, all=False))


def _lightning() -> Any:
    for name in ("lightning.pytorch", "pytorch_lightning"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise CheckpointProblem(
        "Lightning is not installed here", fix="add 'pip install lightning' to the setup of the job"
    )
