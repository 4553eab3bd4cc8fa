"""Builds the objects and puts them together; the only module that may import everything.

Imports stand inside the functions: a command pays for what it uses, and ``--help`` for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bursar.simulate.report_text import Line


def demo(*, seed: int, verbose: bool) -> Iterator[Line]:
    """A simulated day of a demonstration fleet, told line by line."""
    from bursar.core.check import require_sound
    from bursar.simulate.demo import demonstration
    from bursar.simulate.loop import Simulation
    from bursar.simulate.report_text import tell

    return tell(Simulation(demonstration(seed), check=require_sound), verbose=verbose)
