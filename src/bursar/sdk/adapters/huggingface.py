"""Hugging Face ``Trainer``: each ``checkpoint-<step>`` that it writes becomes a whole checkpoint of ours.

The trainer writes into its own folder, where a kill can leave half of one; only what was finished is
copied into the run's place, and only from there is training resumed.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from bursar.sdk.adapters.elastic import agree_to_stop
from bursar.sdk.adapters.folders import copy_folder
from bursar.sdk.checkpointing import Run
from bursar.sdk.errors import CheckpointProblem


def checkpoint_callback(run: Run) -> Any:
    """For ``Trainer(callbacks=[...])``; ``save_strategy="steps"`` says how often."""
    transformers = _transformers()

    class SaveToRun(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
        """Asks for a save when the job is to stop, and takes over what was saved."""

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            del args
            run.progress(state.global_step, state.max_steps)
            if agree_to_stop(run):
                control.should_save = True
                control.should_training_stop = True
            return control

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            name = f"checkpoint-{state.global_step}"
            written = Path(args.output_dir) / name
            run.save(state.global_step, lambda folder: copy_folder(written, folder / name))
            return control

    return SaveToRun()


def resume_path(run: Run) -> str | None:
    """For ``trainer.train(resume_from_checkpoint=...)``."""
    found = run.resume()
    return None if found is None else str(found.path / f"checkpoint-{found.step}")


def _transformers() -> Any:
    try:
        return importlib.import_module("transformers")
    except ImportError:
        raise CheckpointProblem(
            "transformers is not installed here",
            fix="add 'pip install transformers[torch]' to the setup of the job",
        ) from None
