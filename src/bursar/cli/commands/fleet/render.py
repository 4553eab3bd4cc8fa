"""``bursar render``: what other tools need to be told, written from the fleet file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from bursar.cli.arguments import add_yes, key_value, new_parser, whole
from bursar.cli.exit_codes import FAILED, OK
from bursar.cli.terminal.messages import agreed, is_interactive, print_note, warn
from bursar.cli.terminal.output import print_json

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers
    from bursar.wiring.slurm.governed import Rendered, SlurmOptions

EXAMPLES = (
    "bursar render slurm --fleet fleet.yaml",
    "bursar render slurm --fleet fleet.yaml --compare",
    "bursar render slurm --fleet fleet.yaml --user alice=research --apply --yes",
)


def add_parser(commands: Subparsers) -> None:
    """The command, its one tool and its options."""
    parser = new_parser(
        commands,
        "render",
        (
            "write what another scheduler needs to be told: accounts, shares, limits, partitions",
            "Writes the configuration of a scheduler that decides for itself from the tenant tree.",
        ),
        EXAMPLES[:1],
    )
    tools = parser.add_subparsers(dest="tool", metavar="TOOL", title="tools", required=True)
    slurm = new_parser(
        tools,
        "slurm",
        (
            "accounts, shares, QOS, limits as sacctmgr commands; partitions as slurm.conf",
            "Prints the sacctmgr commands and the part of slurm.conf that the fleet calls for. With "
            "--apply, changes in the Slurm of this machine what differs, and nothing else.",
        ),
        EXAMPLES,
    )
    slurm.add_argument("--fleet", required=True, metavar="FILE", help="a fleet file or a folder")
    slurm.add_argument("--cluster", metavar="NAME", help="which of its Slurm clusters")
    slurm.add_argument(
        "--user",
        type=key_value,
        action="append",
        default=[],
        metavar="USER=QUEUE",
        help="who may submit to a queue; may be given several times",
    )
    slurm.add_argument(
        "--grace",
        type=whole,
        default=30,
        metavar="S",
        help="what a preempted job gets to save its work (default 30)",
    )
    slurm.add_argument("--compare", action="store_true", help="only show what differs there now")
    slurm.add_argument("--apply", action="store_true", help="change what differs")
    slurm.add_argument(
        "--conf", metavar="FILE", help="with --apply: keep the part of slurm.conf in this file"
    )
    slurm.add_argument("--json", action="store_true", help="for programs")
    add_yes(slurm)


def run(parsed: argparse.Namespace) -> int:
    """Print, compare or apply."""
    from bursar.wiring.slurm.governed import SlurmOptions, render_slurm

    options = SlurmOptions(
        fleet=parsed.fleet,
        cluster=parsed.cluster,
        members=tuple(parsed.user),
        grace_seconds=parsed.grace,
        conf=parsed.conf,
    )
    rendered = render_slurm(options, query_types=parsed.compare or parsed.apply)
    for note in rendered.setup.notes:
        warn(note)
    if parsed.compare or parsed.apply:
        return _change(parsed, rendered, options)
    if parsed.json:
        print_json({"commands": list(rendered.commands), "slurm_conf": rendered.conf})
        return OK
    print("\n".join(rendered.commands))
    print("\n# -- slurm.conf " + "-" * 84)
    print(rendered.conf, end="")
    return OK


def _change(parsed: argparse.Namespace, rendered: Rendered, options: SlurmOptions) -> int:
    from bursar.wiring.slurm.governed import apply_slurm, compare_slurm

    found = compare_slurm(rendered)
    if not parsed.json:
        for change in found.changes:
            print(f"~ {change.sentence}")
        if not found.changes:
            print(
                f"accounts and QOS of {rendered.cluster} are as the fleet says: nothing to change"
            )
    left = found.conf
    if parsed.apply and (found.changes or options.conf):
        ask = found.changes and not parsed.yes and is_interactive()
        if ask and not agreed(f"make these {len(found.changes)} changes?", default=False):
            print_note("nothing was changed.")
            return FAILED
        applied = apply_slurm(rendered, options)
        left = applied.after.conf
        if not parsed.json and applied.before.changes:
            print(f"{len(applied.before.changes)} changes made and read back")
    if parsed.json:
        print_json(
            {
                "changes": [{"argv": [*one.argv], "text": one.sentence} for one in found.changes],
                "applied": bool(parsed.apply),
                "slurm_conf": list(left),
                "accounts_not_in_the_fleet": list(found.unknown_accounts),
            }
        )
        return OK
    if left:
        print(f"\nslurm.conf says otherwise in {len(left)} lines; it should say:")
        print("\n".join(f"  {line}" for line in left))
        print_note(
            "put them there (or give --conf FILE and include it), then 'scontrol reconfigure'."
        )
    if found.unknown_accounts:
        print_note(
            f"accounts that the fleet does not know are left alone: {', '.join(found.unknown_accounts)}."
        )
    return OK
