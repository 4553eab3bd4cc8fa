"""``bursar slurm``: import a Slurm cluster, price its usage, submit jobs to it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from bursar.cli.arguments import (
    FLEET,
    JSON,
    PRINT_JSON,
    argument,
    command,
    command_of_verbs,
    flag,
    key_value,
    repeatable,
)
from bursar.cli.commands.fleet.render import CLUSTER
from bursar.cli.commands.jobs.job_options import JOB, document_of
from bursar.cli.exit_codes import OK
from bursar.cli.terminal.messages import print_note
from bursar.cli.terminal.output import print_json

if TYPE_CHECKING:
    from bursar.wiring.slurm.governed import SlurmOptions
    from bursar.wiring.slurm.submit import SubmitOptions


SINCE = argument("--since", "DATE", "jobs since this time, in the format of sacct (default: all)")
UNTIL = argument("--until", "DATE", "jobs until this time (default: now)")


@command(
    "import",
    argument("--output", "DIR", "folder to write to", required=True),
    SINCE,
    UNTIL,
    repeatable(
        "--gpu",
        "TYPE=MODEL",
        "GPU model of a gres type whose name is ambiguous; 'gpu' for GPUs without a type",
        type=key_value,
    ),
    PRINT_JSON,
    examples=("bursar slurm import --output site --since 2026-01-01",),
)
def import_site(parsed: argparse.Namespace) -> int:
    """Write a fleet file, a trace and an event log of a Slurm cluster.

    Nodes, partitions, accounts, QOS and the job history are read; nothing is changed. The files are
    fleet.yaml, trace.csv, history.jsonl and sacct.txt, for simulate and whatif.
    """
    from bursar.wiring.slurm.import_cluster import import_slurm, summary_json

    summary = import_slurm(parsed.output, parsed.since, parsed.until, dict(parsed.gpu))
    if parsed.json:
        print_json(summary_json(summary))
        return OK
    for line in summary.lines():
        print(line)
    print_note("next steps:")
    for line in summary.next_steps():
        print_note(f"  {line}")
    return OK


@command(
    "usage",
    FLEET,
    SINCE,
    UNTIL,
    PRINT_JSON,
    examples=("bursar slurm usage --fleet fleet.yaml --since 2026-11-01",),
)
def usage(parsed: argparse.Namespace) -> int:
    """Print what each account used, wasted and cost, at the prices of a fleet file.

    Costs are computed from sacct by the ledger. Accounts that are not in the fleet are listed as foreign.
    The rows sum to the cost of all nodes since the first job.
    """
    from bursar.wiring.slurm.usage import slurm_usage, usage_json

    report = slurm_usage(parsed.fleet, parsed.since, parsed.until)
    if parsed.json:
        print_json(usage_json(report))
        return OK
    for line in report.lines():
        print(line)
    return OK


@command(
    "submit",
    *JOB,
    FLEET,
    CLUSTER,
    argument("--as", "USER", "submit as this user; only root and the Slurm user may", dest="user"),
    argument("--log", "FILE", "file for its output (default: slurm-NUMBER.out)"),
    flag("--dry-run", "only print the sbatch command"),
    PRINT_JSON,
    examples=(
        "bursar slurm submit job.yaml --fleet fleet.yaml",
        "bursar slurm submit --fleet fleet.yaml --queue vision --gpus T4:2 -- python train.py",
        "bursar slurm submit job.yaml --fleet fleet.yaml --dry-run",
    ),
)
def submit(parsed: argparse.Namespace) -> int:
    """Submit a job to Slurm with account, QOS and partitions from the fleet file.

    The job uses its queue's own quota if it fits there, else borrowed quota. Slurm decides when it starts.
    """
    from bursar.wiring.slurm.governed import SlurmOptions
    from bursar.wiring.slurm.submit import SubmitOptions

    options = SlurmOptions(fleet=parsed.fleet, cluster=parsed.cluster)
    submission = SubmitOptions(user=parsed.user, log=parsed.log, dry_run=parsed.dry_run)
    return submit_job(parsed, options, submission)


def submit_job(parsed: argparse.Namespace, options: SlurmOptions, submission: SubmitOptions) -> int:
    """Route a job to Slurm and print where it went."""
    from bursar.client.document import changes_for
    from bursar.wiring.slurm.submit import submit_to_slurm

    document, changes = document_of(parsed)
    text = document.with_keys(changes_for(changes, document)).text
    submitted = submit_to_slurm(text, document.name or "job", options, submission)
    if getattr(parsed, "json", False) or getattr(parsed, "output", "") == JSON:
        summary = {
            "job": submitted.job_id,
            "qos": submitted.route.qos,
            "account": submitted.route.account,
        }
        summary |= {"partitions": ",".join(submitted.route.partitions), "why": submitted.route.why}
        print_json({**summary, "command": submitted.command})
        return OK
    print_note(
        f"{submitted.route.account}, QOS {submitted.route.qos or 'of the account'}: {submitted.route.why}"
    )
    print(submitted.job_id or submitted.command)
    if submitted.job_id:
        print_note(f"'bursar why {submitted.job_id}' prints why it waits.")
    return OK


@command(
    "promote",
    FLEET,
    CLUSTER,
    PRINT_JSON,
    examples=("bursar slurm promote --fleet fleet.yaml",),
)
def promote(parsed: argparse.Namespace) -> int:
    """Move waiting jobs from borrowed to their queue's own quota where it is free."""
    from bursar.wiring.slurm.governed import SlurmOptions
    from bursar.wiring.slurm.submit import promote_in_slurm

    promoted = promote_in_slurm(SlurmOptions(fleet=parsed.fleet, cluster=parsed.cluster))
    if parsed.json:
        print_json({"promoted": [{"job": one.job_id, "qos": one.qos} for one in promoted]})
        return OK
    for one in promoted:
        print(f"{one.job_id} moved to {one.qos}")
    if not promoted:
        print("no waiting job fits into the free quota of its queue")
    return OK


slurm = command_of_verbs(
    "slurm",
    """Import a Slurm cluster, price its usage, submit jobs that it schedules.

    Uses the Slurm that the commands of this machine reach (SLURM_CONF).
    """,
    *(import_site, usage, submit, promote),
    examples=("bursar slurm import --output site", "bursar slurm usage --fleet fleet.yaml"),
)
