"""PyTorch: everything that decides the next step, in one checkpoint.

``TrainingState`` is for models that one process can write. ``save_sharded`` and ``resume_sharded`` are for
those that it cannot; they go through ``torch.distributed.checkpoint`` and may be resumed with another
number of ranks.
"""

from __future__ import annotations

import importlib
import random
import signal
import sys
from pathlib import Path
from typing import Any

from bursar.sdk.adapters.elastic import agree_to_stop, process_group, world
from bursar.sdk.checkpoint_store import PendingCheckpoint
from bursar.sdk.checkpointing import Run, Saved
from bursar.sdk.errors import CheckpointProblem

FILE = "training.pt"
SHARDS = "shards"


class TrainingState:
    """Parts with ``state_dict`` and ``load_state_dict``, and the random generators of every rank.

    Give it the model, the optimiser, the scheduler, a gradient scaler, the position in the data: what is
    left out begins anew after an interruption.
    """

    def __init__(self, *, map_location: Any = "cpu", **parts: Any) -> None:
        for name, part in sorted(parts.items()):
            if not hasattr(part, "state_dict") or not hasattr(part, "load_state_dict"):
                raise CheckpointProblem(
                    f"{name} is a {type(part).__name__}, which has no state_dict and load_state_dict",
                    fix="give it both, or leave it out",
                )
        self._parts = parts
        self._map_location = map_location

    def save(self, run: Run, step: int) -> Saved | None:
        """Called by every rank. After a stop signal this is the last save, and leaves."""
        torch = _torch()
        state = {
            "parts": {name: part.state_dict() for name, part in self._parts.items()},
            "random": _gathered(random_state()),
        }
        return run.save(step, lambda folder: torch.save(state, folder / FILE))

    def resume(self, run: Run) -> int:
        """The step to go on from; 0 when there is no whole checkpoint."""
        found = run.resume()
        if found is None:
            return 0
        torch = _torch()
        state = torch.load(found.path / FILE, map_location=self._map_location, weights_only=True)
        missing = sorted(set(self._parts) ^ set(state["parts"]))
        if missing:
            raise CheckpointProblem(
                f"the checkpoint and this program differ in {', '.join(missing)}",
                fix="give TrainingState the same parts as when it was saved, or use another place",
            )
        for name, part in self._parts.items():
            part.load_state_dict(state["parts"][name])
        ranks = state["random"]
        if world().rank < len(ranks):
            restore_random_state(ranks[world().rank])
        return found.step


def random_state() -> dict[str, Any]:
    """Of Python, PyTorch and, when it is loaded, NumPy; in types that ``weights_only`` reads back."""
    torch = _torch()
    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    if "numpy" in sys.modules:
        kind, keys, *rest = importlib.import_module("numpy").random.get_state()
        state["numpy"] = [str(kind), keys.tolist(), *rest]
    return state


def restore_random_state(state: dict[str, Any]) -> None:
    """The way back. GPUs that were not there when it was saved keep what they have."""
    torch = _torch()
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"].cpu())
    if "cuda" in state and torch.cuda.is_available():
        for device, one in enumerate(state["cuda"][: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(one.cpu(), device)
    if "numpy" in state:
        numpy: Any = importlib.import_module("numpy")
        kind, keys, *rest = state["numpy"]
        numpy.random.set_state((kind, numpy.array(keys, dtype=numpy.uint32), *rest))


def survive_stop_signals(worker_id: int) -> None:
    """``DataLoader(worker_init_fn=...)``: a signal to the whole process group must not end the workers.

    The main process still needs their batches while it saves; it ends them itself.
    """
    del worker_id
    for signum in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(signum, signal.SIG_IGN)


# -- sharded ---------------------------------------------------------------------------------------


class ModelAndOptimizer:
    """What DCP saves of a model and its optimiser, also when they are sharded (FSDP, tensor parallel)."""

    def __init__(self, model: Any, optimizer: Any) -> None:
        self._model = model
        self._optimizer = optimizer

    def state_dict(self) -> dict[str, Any]:
        dcp: Any = importlib.import_module("torch.distributed.checkpoint.state_dict")
        model, optimizer = dcp.get_state_dict(self._model, self._optimizer)
        return {"model": model, "optimizer": optimizer}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        dcp: Any = importlib.import_module("torch.distributed.checkpoint.state_dict")
        dcp.set_state_dict(
            self._model,
            self._optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )


def save_sharded(run: Run, step: int, parts: dict[str, Any]) -> None:
    """Called by every rank; each writes its shards, and rank 0 makes them one checkpoint.

    The place must be a folder that all ranks share: a URL has no folder for all of them to write into.
    """
    dcp: Any = importlib.import_module("torch.distributed.checkpoint")
    draft = run.begin(step) if run.saves else None
    path = _from_first(str(draft.path) if draft else None)
    dcp.save(parts, checkpoint_id=f"{path}/{SHARDS}")
    stop = agree_to_stop(run)
    _commit(run, draft)
    if stop:
        run.leave()


def resume_sharded(run: Run, parts: dict[str, Any]) -> int:
    """The step to go on from, the same on every rank; 0 when there is no whole checkpoint."""
    found = run.resume() if run.saves else None
    step = _from_first(found.step if found else None)
    if step is None:
        return 0
    found = found or run.resume(step=step)
    if found is None:
        raise CheckpointProblem(
            f"rank 0 resumes step {step}, which rank {world().rank} does not find whole",
            fix="keep the checkpoints where all ranks see the same files",
        )
    dcp: Any = importlib.import_module("torch.distributed.checkpoint")
    dcp.load(parts, checkpoint_id=Path(found.path) / SHARDS)
    return int(step)


def _commit(run: Run, draft: PendingCheckpoint | None) -> None:
    if draft is not None:
        run.commit(draft)
    group = process_group()
    if group is not None:
        group.barrier()


def _from_first(value: Any) -> Any:
    group = process_group()
    if group is None:
        return value
    box = [value]
    group.broadcast_object_list(box, src=0)
    return box[0]


def _gathered(value: Any) -> list[Any]:
    group = process_group()
    if group is None:
        return [value]
    values = [None] * group.get_world_size()
    group.all_gather_object(values, value)
    return values


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise CheckpointProblem(
            "PyTorch is not installed here", fix="add 'pip install torch' to the setup of the job"
        ) from None
