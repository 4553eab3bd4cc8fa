"""PyTorch: the complete training state in one checkpoint.

``TrainingState`` is for models that one process can write. ``save_sharded`` and ``resume_sharded`` are for
larger ones; they use ``torch.distributed.checkpoint`` and can resume with another number of ranks.
"""

from __future__ import annotations

import importlib
import random
import signal
import sys
from pathlib import Path
from typing import Any

from bursar.sdk.adapters import framework
from bursar.sdk.adapters.elastic import agree_to_stop, process_group, world
from bursar.sdk.checkpoint_store import PendingCheckpoint
from bursar.sdk.checkpointing import Run, Saved
from bursar.sdk.errors import CheckpointProblem

FILE = "training.pt"
SHARDS = "shards"


class TrainingState:
    """Objects with ``state_dict`` and ``load_state_dict``, and the random generators of every rank.

    Pass the model, the optimiser, the scheduler, a gradient scaler and the position in the data: anything
    left out starts from scratch after an interruption.
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
        """Save; called by every rank. After a stop signal this is the last save, and exits."""
        torch = _torch()
        state = {
            "parts": {name: part.state_dict() for name, part in self._parts.items()},
            "random": _gather(random_state()),
        }
        return run.save(step, lambda folder: torch.save(state, folder / FILE))

    def resume(self, run: Run) -> int:
        """Load the newest checkpoint; returns its step, or 0 if there is none."""
        found = run.resume()
        if found is None:
            return 0
        torch = _torch()
        state = torch.load(found.path / FILE, map_location=self._map_location, weights_only=True)
        missing = sorted(set(self._parts) ^ set(state["parts"]))
        if missing:
            raise CheckpointProblem(
                f"the checkpoint and this program differ in {', '.join(missing)}",
                fix="pass TrainingState the same parts as when it was saved, or use another location",
            )
        for name, part in self._parts.items():
            part.load_state_dict(state["parts"][name])
        ranks = state["random"]
        if world().rank < len(ranks):
            restore_random_state(ranks[world().rank])
        return found.step


def random_state() -> dict[str, Any]:
    """State of the generators of Python, PyTorch and NumPy, in types that ``weights_only`` can load."""
    torch = _torch()
    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    if "numpy" in sys.modules:
        kind, keys, *rest = importlib.import_module("numpy").random.get_state()
        state["numpy"] = [str(kind), keys.tolist(), *rest]
    return state


def restore_random_state(state: dict[str, Any]) -> None:
    """Restore the generators. GPUs without saved state are left as they are."""
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
    """For ``DataLoader(worker_init_fn=...)``: makes workers ignore stop signals.

    The main process still needs their batches until it has saved; it ends them itself.
    """
    del worker_id
    for signum in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(signum, signal.SIG_IGN)


# -- sharded ---------------------------------------------------------------------------------------


class ModelAndOptimizer:
    """State of a model and its optimiser for DCP, sharded (FSDP, tensor parallel) or not."""

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
    """Save; called by every rank. Each writes its shards, and rank 0 commits the checkpoint.

    The location must be a folder that all ranks share, not a URL.
    """
    dcp: Any = importlib.import_module("torch.distributed.checkpoint")
    pending = run.begin(step) if run.saves else None
    path = _broadcast(str(pending.path) if pending else None)
    dcp.save(parts, checkpoint_id=f"{path}/{SHARDS}")
    stop = agree_to_stop(run)
    _commit(run, pending)
    if stop:
        run.leave()


def resume_sharded(run: Run, parts: dict[str, Any]) -> int:
    """Load the newest checkpoint on every rank; returns its step, or 0 if there is none."""
    found = run.resume() if run.saves else None
    step = _broadcast(found.step if found else None)
    if step is None:
        return 0
    found = found or run.resume(step=step)
    if found is None:
        raise CheckpointProblem(
            f"rank 0 resumes step {step}, which is missing or torn on rank {world().rank}",
            fix="put the checkpoints where all ranks see the same files",
        )
    dcp: Any = importlib.import_module("torch.distributed.checkpoint")
    dcp.load(parts, checkpoint_id=Path(found.path) / SHARDS)
    return int(step)


def _commit(run: Run, pending: PendingCheckpoint | None) -> None:
    if pending is not None:
        run.commit(pending)
    group = process_group()
    if group is not None:
        group.barrier()


def _broadcast(value: Any) -> Any:
    """The value of rank 0."""
    group = process_group()
    if group is None:
        return value
    box = [value]
    group.broadcast_object_list(box, src=0)
    return box[0]


def _gather(value: Any) -> list[Any]:
    """The values of all ranks."""
    group = process_group()
    if group is None:
        return [value]
    values = [None] * group.get_world_size()
    group.all_gather_object(values, value)
    return values


def _torch() -> Any:
    return framework("PyTorch", "torch", "torch")
