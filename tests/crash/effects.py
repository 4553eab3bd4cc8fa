"""What jobs really did, by the files they wrote, and checks of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptRun:
    """One run of a job's script: where, on which GPUs, from when to when."""

    job_id: str
    attempt: int
    node: str
    gpus: tuple[str, ...]
    from_ns: int
    to_ns: int | None


def read_runs(path: Path) -> list[ScriptRun]:
    """All script runs, each with its end if there is one."""
    begun: dict[tuple[str, str], list[tuple[str, tuple[str, ...], int]]] = {}
    ended: dict[tuple[str, str], int] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        what, job_id, attempt, node, gpus, at_ns = line.split()
        if what == "begin":
            entry = (node, tuple(gpus.split(",")), int(at_ns))
            begun.setdefault((job_id, attempt), []).append(entry)
        else:
            ended[job_id, attempt] = int(at_ns)
    return [
        ScriptRun(
            job_id=job_id,
            attempt=int(attempt),
            node=node,
            gpus=gpus,
            from_ns=from_ns,
            to_ns=ended.get((job_id, attempt)),
        )
        for (job_id, attempt), entries in begun.items()
        for node, gpus, from_ns in entries
    ]


def run_more_than_once(stays: Iterable[ScriptRun]) -> list[str]:
    """Jobs whose script began more than once."""
    seen: dict[str, int] = {}
    for stay in stays:
        seen[stay.job_id] = seen.get(stay.job_id, 0) + 1
    return sorted(job for job, number in seen.items() if number > 1)


def shared_devices(stays: Iterable[ScriptRun]) -> Iterator[str]:
    """GPUs that two scripts used at the same time."""
    on: dict[tuple[str, str], list[ScriptRun]] = {}
    for stay in stays:
        for gpu in stay.gpus:
            on.setdefault((stay.node, gpu), []).append(stay)
    for (node, gpu), there in sorted(on.items()):
        there.sort(key=lambda stay: stay.from_ns)
        for before, after in pairwise(there):
            if before.to_ns is None or before.to_ns > after.from_ns:
                yield f"GPU {gpu} of {node}: {before.job_id} and {after.job_id}"
