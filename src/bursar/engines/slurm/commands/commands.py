"""Slurm's own programs, run with a time limit. Words in, text out; what fails is an ``EngineFault``."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field

from bursar.model.errors import EngineFault

PLAIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
RETRY_AFTER_SECONDS = 1.0


class SlurmRefused(EngineFault):
    """Slurm understood and said no: asking again the same way is of no use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Which Slurm, and how long to wait for it.

    ``environment`` is added to what little the programs get; ``SLURM_CONF`` in it names the cluster. No
    other variable of the caller reaches them: ``SLURM_*`` and ``SBATCH_*`` would change what they do.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    patience_seconds: float = 30.0

    def run(
        self, *argv: str, text: str | None = None, around: Mapping[str, str] | None = None
    ) -> str:
        """What the program wrote. ``text`` is what it reads; ``around`` is for one that passes its own
        environment on, and has the last word in it."""
        place = {"PATH": PLAIN_PATH} | dict(self.environment)
        program = shutil.which(argv[0], path=place["PATH"])
        if program is None:
            raise _fault(argv[0], f"no such program in {place['PATH']}")
        speech = {"LANG": "C.UTF-8", "SLURM_TIME_FORMAT": "%s"}
        try:
            done = subprocess.run(
                [program, *argv[1:]],
                env=speech | place if around is None else place | dict(around),
                input=text,
                stdin=subprocess.DEVNULL if text is None else None,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=self.patience_seconds,
                cwd="/",
            )
        except subprocess.TimeoutExpired:
            said = f"no answer within {self.patience_seconds:g} s"
            raise _fault(argv[0], said) from None
        except OSError as problem:
            raise _fault(argv[0], problem.strerror or str(problem)) from problem
        if done.returncode != 0:
            said = _complaint(done.stderr or done.stdout)
            if _is_refusal(said):
                raise SlurmRefused(
                    f"Slurm: {argv[0]}: {said}", retry_after_seconds=RETRY_AFTER_SECONDS
                )
            raise _fault(argv[0], said or f"it ended with {done.returncode}")
        return done.stdout


def from_environment() -> Commands:
    """The Slurm that this process would reach by itself."""
    names = ("SLURM_CONF", "PATH", "LD_PRELOAD", "NSS_WRAPPER_PASSWD", "NSS_WRAPPER_GROUP")
    return Commands(environment={name: os.environ[name] for name in names if name in os.environ})


UNREACHABLE = (
    "unable to contact slurm controller",
    "connection refused",
    "socket timed out",
    "zero bytes were transmitted",
    "communication",
    "resource temporarily unavailable",
    "slurmctld",
    "slurmdbd",
    "connect failure",
    "transport endpoint",
)
"""What Slurm says when nobody was there to refuse."""


def _is_refusal(said: str) -> bool:
    lowered = said.lower()
    return bool(said) and not any(words in lowered for words in UNREACHABLE)


def _complaint(said: str) -> str:
    """The last thing that was complained about, without the name of the program before it."""
    lines = [line for line in said.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def _fault(program: str, said: str) -> EngineFault:
    return EngineFault(f"Slurm: {program}: {said}", retry_after_seconds=RETRY_AFTER_SECONDS)
