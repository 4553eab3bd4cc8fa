"""Lightning: saves the trainer's own checkpoint at an interval of steps and on a stop signal.

Lightning calls the handlers that it finds when ``fit`` begins, so stop signals reach both. It ends training
by itself at the end of a batch; the callback has saved by then.
"""

from __future__ import annotations

from typing import Any

from bursar.sdk.adapters import framework
from bursar.sdk.checkpointing import Run

FILE = "lightning.ckpt"


def checkpoint_callback(run: Run, *, every_steps: int) -> Any:
    """For ``Trainer(callbacks=[...])``; can be combined with a ``ModelCheckpoint``."""
    pl = framework("Lightning", "lightning", "lightning.pytorch", "pytorch_lightning")

    class SaveToRun(pl.Callback):  # type: ignore[misc, name-defined]
        """Saves after an optimiser step, never within accumulated batches."""

        def __init__(self) -> None:
            self._saved_step = -1

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            del pl_module
            self._saved_step = trainer.global_step

        def on_train_batch_end(self, trainer: Any, *batch: Any) -> None:
            del batch
            step = trainer.global_step
            run.progress(step, None if trainer.max_steps < 0 else trainer.max_steps)
            stop = _should_any_stop(trainer, run.should_stop)
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
    """All ranks call Lightning's save; its strategy decides which of them write."""
    pending = run.begin(step) if run.saves else None
    path = trainer.strategy.broadcast(str(pending.path / FILE) if pending else None)
    trainer.save_checkpoint(path)
    if pending is not None:
        run.commit(pending)
    trainer.strategy.barrier()


def _should_any_stop(trainer: Any, stop: bool) -> bool:
    if trainer.world_size == 1:
        return stop
    return bool(trainer.strategy.reduce_boolean_decision(stop, all=False))
