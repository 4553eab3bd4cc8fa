"""How Slurm writes generic resources: ``gpu:a100:4(S:0-1),shard:t4:8`` and ``gpu:t4:2(IDX:0,3)``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MIG_TYPE = re.compile(
    r"(?:(?P<model>.*?)[_-])?(?:mig[_-])?(?P<profile>\d+g\.\d+gb(?:\+me(?:\.all)?)?)"
)
NAMED = re.compile(r"(?P<kind>.+)-(?P<index>\d+)")
SUFFIX = {"K": 1_000, "M": 1_000_000, "G": 1_000_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gres:
    """So many of one type. ``indices`` are known only of what is in use."""

    name: str
    kind: str
    count: int
    indices: tuple[int, ...] = ()

    @property
    def mig_profile(self) -> str | None:
        """The profile, when the type is a MIG instance."""
        found = MIG_TYPE.fullmatch(self.kind)
        return found["profile"] if found else None

    @property
    def model(self) -> str:
        """The type without a MIG profile: what the catalog may know the GPU by; may be empty."""
        found = MIG_TYPE.fullmatch(self.kind)
        return (found["model"] or "") if found else self.kind


def parse_gres(text: str) -> tuple[Gres, ...]:
    """In the order in which they are written; what counts nothing is left out."""
    return tuple(one for one in map(_parsed, _split(text)) if one is not None and one.count)


def _parsed(word: str) -> Gres | None:
    plain, _, bracket = word.partition("(")
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
    found = re.match(r"IDX:([\d,-]+)\)", bracket)
    for part in found[1].split(",") if found else ():
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _split(text: str) -> Iterator[str]:
    """At commas that are not in brackets."""
    depth, word = 0, ""
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            yield word
            word = ""
        else:
            word += letter
    if word and word not in ("(null)", "N/A"):
        yield word


def device_types(gpus: tuple[Gres, ...]) -> tuple[str, ...] | None:
    """The type of each device by index, where each has one of its own (``t4-0``, ``t4-1``); else None.

    Slurm chooses among devices of one type by itself. Where every device has its own type, a job can
    say exactly which it wants.
    """
    named: dict[int, str] = {}
    for gpu in gpus:
        found = NAMED.fullmatch(gpu.kind)
        if gpu.count != 1 or found is None:
            return None
        named[int(found["index"])] = gpu.kind
    if sorted(named) != list(range(len(gpus))):
        return None
    return tuple(named[index] for index in range(len(gpus)))
