"""A Slurm that says what a real one said: answers by the words they answer."""

from __future__ import annotations

from collections.abc import Mapping

from bursar.engines.slurm.commands.commands import SlurmRefused


class Said:
    """Gives the text whose words begin what is asked; anything else is refused. Keeps what was asked."""

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
