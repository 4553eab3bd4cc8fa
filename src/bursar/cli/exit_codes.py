"""How a command says to a shell what became of it."""

from __future__ import annotations

from typing import Final

OK: Final = 0
FAILED: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130
