"""The ``bursar`` command line.

Heavy modules are imported by the command that uses them, so ``--help`` is fast.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from bursar import __version__
from bursar.cli.arguments import Command, Parser, argument, command, flag
from bursar.cli.commands.fleet import fleet, gpus, render, rules, slurm, tenant, top
from bursar.cli.commands.jobs import cancel, logs, plan, queue, status, submit, why
from bursar.cli.commands.money import cost, shares
from bursar.cli.commands.operations import chaos, completion, doctor, notify, token, up
from bursar.cli.commands.simulation import compare, simulate, trace, whatif
from bursar.cli.exit_codes import FAILED, INTERRUPTED, OK, WRONG_USAGE, exit_code_of
from bursar.cli.terminal.messages import print_error
from bursar.model.errors import BrokenInvariant, EngineFault, UserError

DEMO_SEED = 7
DEMO_COLOURS = {
    "heading": "1",
    "start": "32",
    "hold": "33",
    "preempt": "31",
    "stop": "31",
    "claim": "35",
    "quota": "36",
    "borrow": "36",
    "partition": "34",
}
"""The terminal colour of each tone."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        code = run(sys.argv[1:] if arguments is None else list(arguments))
        sys.stdout.flush()
        return code
    except UserError as error:
        print_error(error.problem, error.fix)
        return exit_code_of(error)
    except EngineFault as fault:
        print_error(f"{fault}", f"Try again in {fault.retry_after_seconds:g} s.")
        return FAILED
    except BrokenInvariant as broken:
        print_error(f"internal error: {broken}", "Report this with the command you ran.")
        return FAILED
    except BrokenPipeError:
        # The reader closed the pipe. Without this Python fails again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return INTERRUPTED


def run(arguments: list[str]) -> int:
    """Parse the arguments and run their command."""
    arguments, user_command = _split(arguments)
    parser = build_parser()
    name = next((word for word in arguments if not word.startswith("-")), None)
    if name is not None and name not in COMMANDS:
        print_error(f"'{name}' is not a bursar command.", suggestion(name))
        return WRONG_USAGE
    parsed, unknown = parser.parse_known_args(arguments)
    if user_command and not getattr(parsed, "takes_words", False):
        unknown = unknown or ["--"]
    if unknown:
        program = f"bursar {parsed.command}" if parsed.command else "bursar"
        problem = f"'{unknown[0]}' is not an argument of {program}."
        print_error(problem, f"'{program} --help' lists the arguments.")
        return WRONG_USAGE
    if parsed.command is None:
        parser.print_help()
        return OK
    parsed.words = user_command
    return COMMANDS[parsed.command](parsed)


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The arguments, and the words after ``--``, which are the user's own command."""
    if "--" not in arguments:
        return arguments, []
    position = arguments.index("--")
    return arguments[:position], arguments[position + 1 :]


@command(
    "demo",
    flag("--verbose", "print every event and every hold"),
    argument(
        "--seed",
        "N",
        f"seed of the arrival times and run times of small jobs (default {DEMO_SEED})",
        type=int,
        default=DEMO_SEED,
    ),
    examples=("bursar demo --seed 3",),
)
def demo(parsed: argparse.Namespace) -> int:
    """Simulate a small fleet and print what happened and why.

    Three teams share 80 GPUs for one day; every decision is checked. The same seed gives the same output.
    """
    from bursar.wiring import simulation

    coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    for line in simulation.demo(seed=parsed.seed, verbose=parsed.verbose):
        print(paint(line.text, line.tone) if coloured else line.text)
    return OK


def paint(text: str, tone: str) -> str:
    """The text in the colour of its tone, if the tone has one."""
    colour = DEMO_COLOURS.get(tone)
    return f"\x1b[{colour}m{text}\x1b[0m" if colour and text else text


ALL: tuple[Command, ...] = (
    *(up.up, submit.submit, plan.plan, queue.queue, why.why, why.why_preempted),
    *(status.status, logs.logs, cancel.cancel, cancel.retry),
    *(top.top, gpus.gpus, shares.quota, shares.fair, shares.budget, cost.cost, rules.rules),
    *(fleet.fleet, tenant.tenant, token.token, token.whoami, notify.notify, chaos.chaos),
    *(doctor.doctor, render.render, slurm.slurm, demo),
    *(simulate.simulate, compare.compare, whatif.whatif, trace.trace, completion.completion),
)
COMMANDS = {name: one.run for one in ALL for name in (one.name, *one.aliases)}
ALIASES = {alias: one.name for one in ALL for alias in one.aliases}


def build_parser() -> argparse.ArgumentParser:
    """The parser of every command and option."""
    parser: argparse.ArgumentParser = Parser(
        prog="bursar",
        description="Schedules jobs on GPUs that teams share, and accounts for their cost.",
        epilog="'bursar COMMAND --help' describes a command and shows examples.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"bursar {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for one in ALL:
        one.add_to(commands)
    return parser


def suggestion(name: str) -> str:
    """The closest command, and the list of all commands."""
    from bursar.model.suggestion import did_you_mean

    names = sorted(COMMANDS)
    return f"{did_you_mean(name, names)} The commands are: {', '.join(names)}.".lstrip()


if __name__ == "__main__":
    sys.exit(main())
