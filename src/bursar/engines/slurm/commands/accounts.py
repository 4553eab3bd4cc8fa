"""The Slurm account that the jobs of a queue are charged to."""

from __future__ import annotations

from dataclasses import replace

from bursar.engines.slurm.commands.commands import Commands
from bursar.model.errors import EngineFault

PATIENCE_SECONDS = 5.0
"""Slurm's database is asked once, at the start, and nothing depends on it."""


class Accounts:
    """``fixed`` is the operator's choice for every job. Without it, and without an account of the queue's
    name that Slurm lets us use, jobs are booked to the default account of whoever submits them."""

    def __init__(self, commands: Commands, fixed: str) -> None:
        self._commands = replace(commands, patience_seconds=PATIENCE_SECONDS)
        self._fixed = fixed
        self._known: frozenset[str] = frozenset()

    def open(self) -> None:
        """Many clusters have no database and no accounts."""
        if self._fixed:
            return
        try:
            said = self._commands.run("sacctmgr", "-n", "-P", "show", "account", "format=Account")
        except EngineFault:
            return
        self._known = frozenset(said.split())

    def of(self, queue: str) -> str:
        """The account's name, or nothing. Slurm keeps names of accounts in lower case."""
        own = queue.lower()
        return self._fixed or (own if own in self._known else "")

    def give_up(self, account: str) -> bool:
        """Slurm would not have a job under it; whether jobs can do without."""
        self._known -= {account}
        return bool(account) and account != self._fixed
