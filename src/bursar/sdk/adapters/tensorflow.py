"""TensorFlow: the objects of a ``tf.train.Checkpoint`` or ``CheckpointManager``."""

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
    """Load the newest checkpoint; returns its step, or 0 if there is none.

    Variables that do not exist yet get their values when they are created, as usual in TensorFlow.
    """
    found = run.resume()
    if found is None:
        return 0
    _checkpoint(checkpoint).read(str(found.path / PREFIX)).assert_existing_objects_matched()
    return found.step


def _checkpoint(value: Any) -> Any:
    inner = getattr(value, "checkpoint", None)
    tracked = inner if hasattr(inner, "write") else value
    if not hasattr(tracked, "write") or not hasattr(tracked, "read"):
        raise CheckpointProblem(
            f"a {type(value).__name__} cannot be saved as a TensorFlow checkpoint",
            fix="pass a tf.train.Checkpoint or a tf.train.CheckpointManager",
        )
    return tracked
