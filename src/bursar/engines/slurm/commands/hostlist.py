"""Slurm's lists of hosts: ``t4-[1-3,07-09],login`` and the way back. Pure: no process for each list."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_RANGE = re.compile(r"\[([\d,-]+)\]")


def expand(text: str) -> tuple[str, ...]:
    """Every name, in the order in which it is written."""
    if text in ("", "(null)", "N/A", "None assigned"):
        return ()
    return tuple(name for word in _words(text) for name in _expanded(word))


def _words(text: str) -> Iterator[str]:
    depth, word = 0, ""
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            yield word
            word = ""
        else:
            word += letter
    if word:
        yield word


def _expanded(word: str) -> Iterator[str]:
    found = _RANGE.search(word)
    if found is None:
        yield word
        return
    before, after = word[: found.start()], word[found.end() :]
    for part in found[1].split(","):
        first, _, last = part.partition("-")
        for number in range(int(first), int(last or first) + 1):
            for rest in _expanded(after):
                yield f"{before}{number:0{len(first)}}{rest}"


def join(names: Iterable[str]) -> str:
    """As Slurm takes it. Names are not folded into ranges: they need not be numbered."""
    return ",".join(names)
