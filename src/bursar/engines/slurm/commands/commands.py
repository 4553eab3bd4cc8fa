"""Runs Slurm's programs with a timeout. Any failure is an ``EngineFault``."""

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
    """Slurm rejected the request: repeating it unchanged is useless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """How to reach a Slurm cluster, and how long to wait for it.

    ``environment`` is passed to the programs; ``SLURM_CONF`` in it selects the cluster. No other variable
    of the caller is passed: ``SLURM_*`` and ``SBATCH_*`` would change what the programs do.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float = 30.0

    def run(
        self, *argv: str, text: str | None = None, job_environment: Mapping[str, str] | None = None
    ) -> str:
        """The program's output. ``text`` is its input. ``job_environment`` is for sbatch, which passes its
        own environment on to the job."""
        environment = {"PATH": PLAIN_PATH} | dict(self.environment)
        program = shutil.which(argv[0], path=environment["PATH"])
        if program is None:
            raise _fault(argv[0], f"no such program in {environment['PATH']}")
        if job_environment is None:
            environment = {"LANG": "C.UTF-8", "SLURM_TIME_FORMAT": "%s"} | environment
        else:
            environment |= job_environment
        try:
            done = subprocess.run(
                [program, *argv[1:]],
                env=environment,
                input=text,
                stdin=subprocess.DEVNULL if text is None else None,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=self.timeout_seconds,
                cwd="/",
            )
        except subprocess.TimeoutExpired:
            raise _fault(argv[0], f"no response within {self.timeout_seconds:g} s") from None
        except OSError as problem:
            raise _fault(argv[0], problem.strerror or str(problem)) from problem
        if done.returncode != 0:
            message = _last_line(done.stderr or done.stdout)
            kind = SlurmRefused if message and not is_unreachable(message) else EngineFault
            raise _fault(argv[0], message or f"exit code {done.returncode}", kind)
        return done.stdout


def from_environment() -> Commands:
    """The cluster that this process reaches by its own environment."""
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
"""Parts of messages that mean a lost connection, not a refusal."""


def is_unreachable(message: str) -> bool:
    return any(text in message.lower() for text in UNREACHABLE)


def _last_line(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def _fault(program: str, problem: str, kind: type[EngineFault] = EngineFault) -> EngineFault:
    return kind(f"Slurm: {program}: {problem}", retry_after_seconds=RETRY_AFTER_SECONDS)
