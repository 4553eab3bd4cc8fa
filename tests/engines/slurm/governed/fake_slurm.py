"""A fake Slurm that returns stored outputs of a real one, by the beginning of the command."""

from __future__ import annotations

from collections.abc import Mapping

from bursar.engines.slurm.commands.commands import SlurmRefused


class FakeSlurm:
    """Returns the output whose key begins the command; refuses others. Records all commands."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        self._answers = answers
        self.asked: list[tuple[str, ...]] = []

    def run(self, *argv: str, text: str | None = None) -> str:
        self.asked.append(argv)
        words = " ".join(argv)
        for begins, answer in self._answers.items():
            if words.startswith(begins):
                return answer
        raise SlurmRefused(f"Slurm: {words}", retry_after_seconds=1)
