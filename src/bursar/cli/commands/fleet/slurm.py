"""``bursar slurm``: an existing Slurm imported, its usage priced, jobs routed to it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from bursar.cli.arguments import JSON, key_value, new_parser
from bursar.cli.commands.jobs.job_options import add_job, document_of
from bursar.cli.exit_codes import OK
from bursar.cli.terminal.messages import print_note
from bursar.cli.terminal.output import print_json

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers
    from bursar.wiring.slurm.governed import SlurmOptions
    from bursar.wiring.slurm.submit import SubmitOptions


def add_parser(commands: Subparsers) -> None:
    """The command, its verbs and their options."""
    parser = new_parser(
        commands,
        "slurm",
        (
            "import an existing Slurm, price what it ran, submit to it where it decides",
            "Talks to the Slurm that this machine's own commands reach (SLURM_CONF).",
        ),
        ("bursar slurm import --output site", "bursar slurm usage --fleet fleet.yaml"),
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs", required=True)
    _add_import(verbs)
    _add_usage(verbs)
    _add_submit(verbs)
    _add_promote(verbs)


def _add_import(verbs: Subparsers) -> None:
    parser = new_parser(
        verbs,
        "import",
        (
            "write a fleet file, a trace and a log of what ran, ready for simulate and whatif",
            "Reads nodes, partitions, accounts, QOS and the history of a Slurm, changes nothing there, "
            "and writes fleet.yaml, trace.csv, history.jsonl and sacct.txt.",
        ),
        ("bursar slurm import --output site --since 2026-01-01",),
    )
    parser.add_argument("--output", required=True, metavar="DIR", help="the folder to write to")
    _add_period(parser)
    parser.add_argument(
        "--gpu",
        type=key_value,
        action="append",
        default=[],
        metavar="TYPE=MODEL",
        help="which model a type of GPU is, where its name does not say; GPUs without a type: 'gpu'",
    )
    parser.add_argument("--json", action="store_true", help="for programs")


def _add_usage(verbs: Subparsers) -> None:
    parser = new_parser(
        verbs,
        "usage",
        (
            "what each account used, wasted and costs, with the prices of a fleet file",
            "Folds what sacct remembers through the ledger. Accounts that the fleet does not know are "
            "shown as foreign. All rows together are what the nodes cost since the first job.",
        ),
        ("bursar slurm usage --fleet fleet.yaml --since 2026-11-01",),
    )
    parser.add_argument("--fleet", required=True, metavar="FILE", help="a fleet file or a folder")
    _add_period(parser)
    parser.add_argument("--json", action="store_true", help="for programs")


def _add_submit(verbs: Subparsers) -> None:
    parser = new_parser(
        verbs,
        "submit",
        (
            "submit a job file to a Slurm that decides: its account, QOS and partitions are chosen",
            "Routes a job by the fleet file: to its queue's own quota while that has room, else as "
            "borrowed. Slurm decides when it starts.",
        ),
        (
            "bursar slurm submit job.yaml --fleet fleet.yaml",
            "bursar slurm submit --fleet fleet.yaml --queue vision --gpus T4:2 -- python train.py",
            "bursar slurm submit job.yaml --fleet fleet.yaml --dry-run",
        ),
    )
    add_job(parser)
    parser.add_argument("--fleet", required=True, metavar="FILE", help="a fleet file or a folder")
    parser.add_argument("--cluster", metavar="NAME", help="which of its Slurm clusters")
    parser.add_argument(
        "--as", dest="user", metavar="USER", help="as this user; only root and Slurm's own user may"
    )
    parser.add_argument(
        "--log", metavar="FILE", help="where its output goes (default: slurm-NUMBER.out here)"
    )
    parser.add_argument("--dry-run", action="store_true", help="show the sbatch command only")
    parser.add_argument("--json", action="store_true", help="for programs")


def _add_promote(verbs: Subparsers) -> None:
    parser = new_parser(
        verbs,
        "promote",
        (
            "move waiting jobs from borrowed to their queue's own quota where it has room",
            "",
        ),
        ("bursar slurm promote --fleet fleet.yaml",),
    )
    parser.add_argument("--fleet", required=True, metavar="FILE", help="a fleet file or a folder")
    parser.add_argument("--cluster", metavar="NAME", help="which of its Slurm clusters")
    parser.add_argument("--json", action="store_true", help="for programs")


def _add_period(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--since", metavar="DATE", help="jobs alive since then, as sacct takes it (default: all)"
    )
    parser.add_argument("--until", metavar="DATE", help="and until then (default: now)")


def run(parsed: argparse.Namespace) -> int:
    """Do what the verb says."""
    return {
        "import": _import,
        "usage": _usage,
        "submit": _submit,
        "promote": _promote,
    }[parsed.verb](parsed)


def _import(parsed: argparse.Namespace) -> int:
    from bursar.wiring.slurm.import_cluster import import_slurm, summary_json

    summary = import_slurm(parsed.output, parsed.since, parsed.until, dict(parsed.gpu))
    if parsed.json:
        print_json(summary_json(summary))
        return OK
    for line in summary.lines():
        print(line)
    print_note("next, for example:")
    for line in summary.next_steps():
        print_note(f"  {line}")
    return OK


def _usage(parsed: argparse.Namespace) -> int:
    from bursar.wiring.slurm.usage import slurm_usage, usage_json

    report = slurm_usage(parsed.fleet, parsed.since, parsed.until)
    if parsed.json:
        print_json(usage_json(report))
        return OK
    for line in report.lines():
        print(line)
    return OK


def _submit(parsed: argparse.Namespace) -> int:
    from bursar.wiring.slurm.governed import SlurmOptions
    from bursar.wiring.slurm.submit import SubmitOptions

    options = SlurmOptions(fleet=parsed.fleet, cluster=parsed.cluster)
    wanted = SubmitOptions(user=parsed.user, log=parsed.log, dry_run=parsed.dry_run)
    return hand_over(parsed, options, wanted)


def hand_over(parsed: argparse.Namespace, options: SlurmOptions, wanted: SubmitOptions) -> int:
    """Route a job given by words or a file, and say where it went."""
    from bursar.client.document import changes_for
    from bursar.wiring.slurm.submit import submit_to_slurm

    document, changes = document_of(parsed)
    text = document.with_keys(changes_for(changes, document)).text
    made = submit_to_slurm(text, document.name or "job", options, wanted)
    if getattr(parsed, "json", False) or getattr(parsed, "output", "") == JSON:
        told = {"job": made.job_id, "qos": made.route.qos, "account": made.route.account}
        told |= {"partitions": ",".join(made.route.partitions), "why": made.route.why}
        print_json({**told, "command": made.command})
        return OK
    print_note(f"{made.route.account}, QOS {made.route.qos or 'of the account'}: {made.route.why}")
    print(made.job_id or made.command)
    if made.job_id:
        print_note(f"'bursar why {made.job_id}' says what it waits for.")
    return OK


def _promote(parsed: argparse.Namespace) -> int:
    from bursar.wiring.slurm.governed import SlurmOptions
    from bursar.wiring.slurm.submit import promote_in_slurm

    found = promote_in_slurm(SlurmOptions(fleet=parsed.fleet, cluster=parsed.cluster))
    if parsed.json:
        print_json({"promoted": [{"job": one.job_id, "qos": one.qos} for one in found]})
        return OK
    for one in found:
        print(f"{one.job_id} is in {one.qos} now")
    if not found:
        print("no waiting job fits into what its queue has left of its own")
    return OK
