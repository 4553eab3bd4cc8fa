"""``bursar render``: the configuration of another scheduler, from the fleet file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from bursar.cli.arguments import (
    FLEET,
    PRINT_JSON,
    YES,
    argument,
    command,
    command_of_verbs,
    flag,
    key_value,
    repeatable,
    whole,
)
from bursar.cli.exit_codes import FAILED, OK
from bursar.cli.terminal.messages import confirm, is_interactive, print_note, warn
from bursar.cli.terminal.output import print_json
from bursar.model.units import counted

if TYPE_CHECKING:
    from bursar.wiring.slurm.governed import Rendered, SlurmOptions

EXAMPLES = (
    "bursar render slurm --fleet fleet.yaml",
    "bursar render slurm --fleet fleet.yaml --compare",
    "bursar render slurm --fleet fleet.yaml --user alice=research --apply --yes",
)
CLUSTER = argument("--cluster", "NAME", "the Slurm cluster, if the fleet has several")


@command(
    "slurm",
    FLEET,
    CLUSTER,
    repeatable(
        "--user", "USER=QUEUE", "a user who may submit to a queue; repeatable", type=key_value
    ),
    argument(
        "--grace",
        "S",
        "seconds that a preempted job has to save its work (default 30)",
        type=whole,
        default=30,
    ),
    flag("--compare", "only print the differences from the local Slurm"),
    flag("--apply", "apply the differences"),
    argument("--conf", "FILE", "with --apply: write the section of slurm.conf to this file"),
    PRINT_JSON,
    YES,
    examples=EXAMPLES,
)
def slurm(parsed: argparse.Namespace) -> int:
    """Write accounts, shares, QOS and limits as sacctmgr commands, partitions as slurm.conf.

    With --apply, what differs in the local Slurm is changed, and nothing else.
    """
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


render = command_of_verbs(
    "render",
    """Write the configuration of another scheduler from the fleet file.

    For a scheduler that makes its own decisions: accounts, shares, limits and partitions.
    """,
    slurm,
    examples=EXAMPLES[:1],
    noun="tool",
)


def _change(parsed: argparse.Namespace, rendered: Rendered, options: SlurmOptions) -> int:
    from bursar.wiring.slurm.governed import apply_slurm, compare_slurm

    comparison = compare_slurm(rendered)
    if not parsed.json:
        for change in comparison.changes:
            print(f"~ {change.sentence}")
        if not comparison.changes:
            print(f"accounts and QOS of {rendered.cluster} match the fleet: nothing to change")
    conf_differences = comparison.conf
    if parsed.apply and (comparison.changes or options.conf):
        ask = comparison.changes and not parsed.yes and is_interactive()
        if ask and not confirm(
            f"apply {counted(len(comparison.changes), 'change')}?", default=False
        ):
            print_note("changed nothing.")
            return FAILED
        applied = apply_slurm(rendered, options)
        conf_differences = applied.after.conf
        if not parsed.json and applied.before.changes:
            print(f"applied and verified {counted(len(applied.before.changes), 'change')}")
    if parsed.json:
        print_json(
            {
                "changes": [
                    {"argv": [*one.argv], "text": one.sentence} for one in comparison.changes
                ],
                "applied": bool(parsed.apply),
                "slurm_conf": list(conf_differences),
                "accounts_not_in_the_fleet": list(comparison.unknown_accounts),
            }
        )
        return OK
    if conf_differences:
        print(
            f"\nslurm.conf differs in {counted(len(conf_differences), 'line')}; it should contain:"
        )
        print("\n".join(f"  {line}" for line in conf_differences))
        print_note(
            "add them (or pass --conf FILE and include it), then run 'scontrol reconfigure'."
        )
    if comparison.unknown_accounts:
        print_note(
            f"accounts that are not in the fleet were not changed: {', '.join(comparison.unknown_accounts)}."
        )
    return OK
