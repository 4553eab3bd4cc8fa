"""``bursar why`` and ``bursar why-preempted``."""

from __future__ import annotations

import argparse

from bursar.cli.arguments import CONNECTION, FORMAT, argument, command
from bursar.cli.connection import ask
from bursar.cli.exit_codes import OK
from bursar.cli.terminal.safe_text import lines
from bursar.cli.terminal.table import print_one


@command(
    "why",
    argument("job", "JOB", "job id, or the number of a job of the local Slurm"),
    FORMAT,
    CONNECTION,
    examples=("bursar why j-abcdefghij", "bursar why 1234"),
)
def why(parsed: argparse.Namespace) -> int:
    """Print why a job waits, until when, and what would start it now.

    Every reason is given in numbers: what is missing, who holds it, when it should be free, the job's queue
    position, and which smaller change would start it now at what cost.
    """
    if parsed.job[:1].isdigit():
        from bursar.wiring.slurm.governed import explain_slurm_job, slurm_explanation_json

        slurm_job = explain_slurm_job(parsed.job)
        text = "\n".join(slurm_job.lines())
        print_one(parsed, slurm_explanation_json(slurm_job), lambda: print(lines(text)))
        return OK
    explanation = ask(parsed, lambda client: client.why(parsed.job))
    print_one(parsed, explanation, lambda: print(lines("\n".join(explanation["text"]))))
    return OK


@command(
    "why-preempted",
    argument("job", "JOB", "job id"),
    FORMAT,
    CONNECTION,
    examples=("bursar why-preempted j-abcdefghij",),
)
def why_preempted(parsed: argparse.Namespace) -> int:
    """Print what interrupted a job, what that cost, and what would help.

    The cause is capacity, price, priority, quota or budget. The report compares how often the job saved with
    how long it ran, and shows how long recovery took and what was lost.
    """
    report = ask(parsed, lambda client: client.why_preempted(parsed.job))
    print_one(parsed, report, lambda: print(lines("\n".join(report["text"]))))
    return OK
