"""Parses Slurm's generic resources: ``gpu:a100:4(S:0-1),shard:t4:8`` and ``gpu:t4:2(IDX:0,3)``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from bursar.slurm_text import split_list

MIG_TYPE = re.compile(
    r"(?:(?P<model>.*?)[_-])?(?:mig[_-])?(?P<profile>\d+g\.\d+gb(?:\+me(?:\.all)?)?)"
)
NAMED = re.compile(r"(?P<kind>.+)-(?P<index>\d+)")
SUFFIX = {"K": 1_000, "M": 1_000_000, "G": 1_000_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gres:
    """A count of one resource type. ``indices`` are known only for resources in use."""

    name: str
    kind: str
    count: int
    indices: tuple[int, ...] = ()

    @property
    def mig_profile(self) -> str | None:
        """The MIG profile, if the type is a MIG instance."""
        match = MIG_TYPE.fullmatch(self.kind)
        return match["profile"] if match else None

    @property
    def model(self) -> str:
        """The type without a MIG profile, for lookup in the catalog; may be empty."""
        match = MIG_TYPE.fullmatch(self.kind)
        return (match["model"] or "") if match else self.kind


def parse_gres(text: str) -> tuple[Gres, ...]:
    """Resources in the order of the text; those with a count of 0 are dropped."""
    items = (item for item in split_list(text) if item not in ("(null)", "N/A"))
    return tuple(gres for gres in map(_parse_item, items) if gres is not None and gres.count)


def _parse_item(item: str) -> Gres | None:
    plain, _, bracket = item.partition("(")
    parts = plain.removeprefix("gres:").removeprefix("gres/").split(":")
    if not parts[0] or parts[0] == "null":
        return None
    count = 1
    if len(parts) > 1 and (number := _count(parts[-1])) is not None:
        count = number
        parts.pop()
    indices = tuple(_indices(bracket))
    return Gres(name=parts[0], kind=":".join(parts[1:]), count=count, indices=indices)


def _count(text: str) -> int | None:
    if text[-1:] in SUFFIX and text[:-1].isdecimal():
        return int(text[:-1]) * SUFFIX[text[-1]]
    return int(text) if text.isdecimal() else None


def _indices(bracket: str) -> Iterator[int]:
    """``IDX:0-1,3)``."""
    match = re.match(r"IDX:([\d,-]+)\)", bracket)
    for span in match[1].split(",") if match else ():
        first, _, last = span.partition("-")
        yield from range(int(first), int(last or first) + 1)


def device_types(gpus: tuple[Gres, ...]) -> tuple[str, ...] | None:
    """The type of each device by index, if each device has its own (``t4-0``, ``t4-1``); else None.

    Slurm chooses among devices of one type. If every device has its own type, a job can request a
    specific device.
    """
    named: dict[int, str] = {}
    for gpu in gpus:
        match = NAMED.fullmatch(gpu.kind)
        if gpu.count != 1 or match is None:
            return None
        named[int(match["index"])] = gpu.kind
    if sorted(named) != list(range(len(gpus))):
        return None
    return tuple(named[index] for index in range(len(gpus)))
