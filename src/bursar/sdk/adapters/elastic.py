"""Resuming with another number of processes: positions count the samples of all ranks.

``torchrun`` restarts all workers when a node joins or leaves. A saved sample order is valid for any number
of workers, and the size of a step over all ranks stays the same.
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
    """Rank, world size and restart count, as torchrun and Bursar set them."""

    rank: int
    size: int
    restarts: int


def world() -> WorkerRank:
    """Rank 0 of 1 if the variables are not set."""
    return WorkerRank(
        int(os.environ.get("RANK", "0")),
        int(os.environ.get("WORLD_SIZE", "1")),
        int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
    )


class SampleOrder:
    """A shuffled order of samples that all ranks share, and their common position in it.

    ``upcoming`` changes nothing, so a data loader may prefetch; call ``advance`` when a step is done.
    """

    def __init__(self, samples: int, *, seed: int = 0) -> None:
        self._samples = samples
        self._seed = seed
        self.epoch = 0
        self.done = 0
        """Samples of this epoch that all ranks together have processed."""

    def upcoming(self, step_samples: int) -> Iterator[list[int]]:
        """This rank's share of each remaining step of the epoch.

        Samples at the end of an epoch that do not fill a step are dropped, as with ``drop_last``.
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
        """Record a finished step; begins the next epoch at the end of this one."""
        self.done += step_samples
        if self.done + step_samples > self._samples:
            self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self) -> dict[str, int]:
        """The position; the same on every rank."""
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
    """Whether any rank received a stop signal. All ranks must call it at the same step."""
    group = process_group()
    if group is None:
        return run.should_stop
    torch: Any = importlib.import_module("torch")
    device = "cpu" if "gloo" in str(group.get_backend()) else "cuda"
    flag = torch.tensor([int(run.should_stop)], device=device)
    group.all_reduce(flag, op=group.ReduceOp.MAX)
    return bool(flag.item())


def process_group() -> Any:
    """``torch.distributed`` if it is in use, else None. Does not import torch."""
    import sys

    if "torch" not in sys.modules:
        return None
    group: Any = importlib.import_module("torch.distributed")
    return group if group.is_available() and group.is_initialized() else None
