"""Going on with another number of processes: positions count samples of all ranks, not batches of one.

``torchrun`` starts all workers anew when a node comes or goes. What a sample order saves means the same
for any number of them, and the size of a step over all ranks stays what it was.
"""

from __future__ import annotations

import importlib
import os
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from bursar.sdk.checkpointing import Run
from bursar.sdk.errors import CheckpointProblem


class WorkerRank(NamedTuple):
    """Who this process is among all, as torchrun and Bursar say it."""

    rank: int
    size: int
    restarts: int


def world() -> WorkerRank:
    """Alone when nobody says otherwise."""
    return WorkerRank(
        int(os.environ.get("RANK", "0")),
        int(os.environ.get("WORLD_SIZE", "1")),
        int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
    )


class SampleOrder:
    """A shuffled order of samples that all ranks share, and how far they have come in it together.

    ``upcoming`` looks ahead and changes nothing, so a data loader may fetch early; ``advance`` is called
    when a step is done.
    """

    def __init__(self, samples: int, *, seed: int = 0) -> None:
        self._samples = samples
        self._seed = seed
        self.epoch = 0
        self.done = 0
        """Samples of this epoch that all ranks together have worked off."""

    def upcoming(self, step_samples: int) -> Iterator[list[int]]:
        """This rank's part of each step of this epoch that is still to do; steps have ``step_samples``.

        The last samples of an epoch that do not fill a step are left out, as ``drop_last`` does.
        """
        rank, size, _ = world()
        if step_samples < size:
            raise CheckpointProblem(
                f"a step of {step_samples} samples cannot be shared by {size} ranks",
                fix=f"use at least {size} samples a step, or fewer ranks",
            )
        order = list(range(self._samples))
        random.Random(f"{self._seed}-{self.epoch}").shuffle(order)
        for start in range(self.done, self._samples - step_samples + 1, step_samples):
            yield order[start : start + step_samples][rank::size]

    def advance(self, step_samples: int) -> None:
        """A step is done; at the end of the epoch the next one begins."""
        self.done += step_samples
        if self.done + step_samples > self._samples:
            self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self) -> dict[str, int]:
        """Small, and the same on every rank."""
        return {"epoch": self.epoch, "done": self.done, "seed": self._seed, "of": self._samples}

    def load_state_dict(self, state: dict[str, int]) -> None:
        if (state["of"], state["seed"]) != (self._samples, self._seed):
            raise CheckpointProblem(
                f"the checkpoint is of {state['of']} samples with seed {state['seed']}, and this run "
                f"has {self._samples} with seed {self._seed}",
                fix="use the same samples and seed, or another place for the checkpoints",
            )
        self.epoch, self.done = state["epoch"], state["done"]


def agree_to_stop(run: Run) -> bool:
    """Whether any rank was asked to stop. All ranks must call it at the same point of their loop."""
    group = process_group()
    if group is None:
        return run.should_stop
    torch: Any = importlib.import_module("torch")
    device = "cpu" if "gloo" in str(group.get_backend()) else "cuda"
    flag = torch.tensor([int(run.should_stop)], device=device)
    group.all_reduce(flag, op=group.ReduceOp.MAX)
    return bool(flag.item())


def process_group() -> Any:
    """``torch.distributed`` when it is in use, else None; torch is not loaded to find out."""
    import sys

    if "torch" not in sys.modules:
        return None
    group: Any = importlib.import_module("torch.distributed")
    return group if group.is_available() and group.is_initialized() else None
