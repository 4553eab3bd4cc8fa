"""TensorFlow: what a ``tf.train.Checkpoint`` tracks, or the one behind a ``CheckpointManager``."""

from __future__ import annotations

from typing import Any

from bursar.sdk.checkpointing import Run, Saved
from bursar.sdk.errors import CheckpointProblem

PREFIX = "tensorflow"


def save(run: Run, step: int, checkpoint: Any) -> Saved | None:
    """``checkpoint`` is a ``tf.train.Checkpoint`` or a ``tf.train.CheckpointManager``."""
    tracked = _checkpoint(checkpoint)
    return run.save(step, lambda folder: tracked.write(str(folder / PREFIX)))


def resume(run: Run, checkpoint: Any) -> int:
    """The step to go on from; 0 when there is no whole checkpoint.

    Variables that do not exist yet get their values when they are made, as TensorFlow does it.
    """
    found = run.resume()
    if found is None:
        return 0
    _checkpoint(checkpoint).read(str(found.path / PREFIX)).assert_existing_objects_matched()
    return found.step


def _checkpoint(given: Any) -> Any:
    inner = getattr(given, "checkpoint", None)
    tracked = inner if hasattr(inner, "write") else given
    if not hasattr(tracked, "write") or not hasattr(tracked, "read"):
        raise CheckpointProblem(
            f"a {type(given).__name__} cannot be saved as a checkpoint of TensorFlow",
            fix="give a tf.train.Checkpoint or a tf.train.CheckpointManager",
        )
    return tracked
