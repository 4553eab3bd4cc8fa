"""Chooses the Slurm account of a queue's jobs."""

from __future__ import annotations

from dataclasses import replace

from bursar.engines.slurm.commands.commands import Commands
from bursar.model.errors import EngineFault

TIMEOUT_SECONDS = 5.0
"""Slurm's database is queried once, at the start; the result is optional."""


class Accounts:
    """``fixed`` is the operator's choice for every job. Without it a queue uses the account of the same
    name, or, if Slurm has none or refuses it, the default account of the submitting user."""

    def __init__(self, commands: Commands, fixed: str) -> None:
        self._commands = replace(commands, timeout_seconds=TIMEOUT_SECONDS)
        self._fixed = fixed
        self._known: frozenset[str] = frozenset()

    def open(self) -> None:
        """Query the accounts. Many clusters have no database and no accounts."""
        if self._fixed:
            return
        try:
            output = self._commands.run("sacctmgr", "-n", "-P", "show", "account", "format=Account")
        except EngineFault:
            return
        self._known = frozenset(output.split())

    def of(self, queue: str) -> str:
        """The account of a queue, or "". Slurm stores account names in lower case."""
        name = queue.lower()
        return self._fixed or (name if name in self._known else "")

    def exclude(self, account: str) -> bool:
        """Stop using an account that Slurm refused; whether jobs can be submitted without it."""
        self._known -= {account}
        return bool(account) and account != self._fixed
