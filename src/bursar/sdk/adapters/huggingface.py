"""Hugging Face ``Trainer``: each ``checkpoint-<step>`` folder is copied into a checkpoint of the run.

The trainer writes into its own folder, where a kill can leave a torn checkpoint. Only finished ones are
copied, and training resumes only from the copies.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bursar.sdk.adapters import framework
from bursar.sdk.adapters.elastic import agree_to_stop
from bursar.sdk.checkpointing import Run


def checkpoint_callback(run: Run) -> Any:
    """For ``Trainer(callbacks=[...])``; set the interval by ``save_strategy="steps"``."""
    from shutil import copytree

    transformers = framework("transformers", "transformers[torch]", "transformers")

    class SaveToRun(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
        """Requests a save on a stop signal, and copies each saved folder."""

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
            # Files, not links: the trainer may later rewrite a link's target.
            run.save(state.global_step, lambda folder: copytree(written, folder / name))
            return control

    return SaveToRun()


def resume_path(run: Run) -> str | None:
    """For ``trainer.train(resume_from_checkpoint=...)``."""
    found = run.resume()
    return None if found is None else str(found.path / f"checkpoint-{found.step}")
