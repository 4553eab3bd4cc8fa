"""The ``bursar`` command line.

Only what every command needs is imported at the top, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from bursar import __version__
from bursar.cli.arguments import Parser, Subparsers, new_parser
from bursar.cli.commands.fleet import fleet, gpus, render, rules, slurm, tenant, top
from bursar.cli.commands.jobs import cancel, logs, plan, queue, status, submit, why, why_preempted
from bursar.cli.commands.money import cost, shares
from bursar.cli.commands.operations import chaos, completion, doctor, notify, token, up
from bursar.cli.commands.simulation import compare, simulate, trace, whatif
from bursar.cli.exit_codes import FAILED, INTERRUPTED, OK, WRONG_USAGE, exit_code_of
from bursar.cli.terminal.colours import paint
from bursar.cli.terminal.messages import print_error
from bursar.model.errors import BrokenInvariant, EngineFault, UserError

DEMO_SEED = 7

Command = Callable[[argparse.Namespace], int]


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
        print_error(f"Bursar itself is at fault: {broken}", "Report this, with what you typed.")
        return FAILED
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return INTERRUPTED


def run(arguments: list[str]) -> int:
    """Find the command that the arguments name, and run it."""
    arguments, words = _split(arguments)
    parser = build_parser()
    named = next((word for word in arguments if not word.startswith("-")), None)
    if named is not None and named not in COMMANDS:
        print_error(f"'{named}' is not a command of bursar.", suggestion(named))
        return WRONG_USAGE
    parsed, unknown = parser.parse_known_args(arguments)
    if words and not getattr(parsed, "takes_words", False):
        unknown = unknown or ["--"]
    if unknown:
        of = f"bursar {parsed.command}" if parsed.command else "bursar"
        print_error(f"'{unknown[0]}' means nothing to {of}.", f"'{of} --help' lists what it takes.")
        return WRONG_USAGE
    if parsed.command is None:
        parser.print_help()
        return OK
    parsed.words = words
    return COMMANDS[parsed.command](parsed)


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """What is for us, and the words after ``--``, which are a user's own command."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def demo(parsed: argparse.Namespace) -> int:
    """Print the demonstration, in colour when people watch."""
    from bursar.wiring import simulation

    coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    for line in simulation.demo(seed=parsed.seed, verbose=parsed.verbose):
        print(paint(line.text, line.tone) if coloured else line.text)
    return OK


COMMANDS: dict[str, Command] = {
    "budget": shares.run_budget,
    "cancel": cancel.run_cancel,
    "chaos": chaos.run,
    "compare": compare.run,
    "completion": completion.run,
    "cost": cost.run,
    "demo": demo,
    "doctor": doctor.run,
    "fair": shares.run_fair,
    "fleet": fleet.run,
    "gpus": gpus.run,
    "launch": submit.run,
    "logs": logs.run,
    "notify": notify.run,
    "plan": plan.run,
    "ps": queue.run,
    "queue": queue.run,
    "quota": shares.run_quota,
    "render": render.run,
    "retry": cancel.run_retry,
    "rules": rules.run,
    "simulate": simulate.run,
    "slurm": slurm.run,
    "status": status.run,
    "submit": submit.run,
    "tenant": tenant.run,
    "token": token.run,
    "top": top.run,
    "trace": trace.run,
    "up": up.run,
    "whatif": whatif.run,
    "whoami": token.run_whoami,
    "why": why.run,
    "why-preempted": why_preempted.run,
}
ALIASES = {"launch": "submit", "ps": "queue"}

FOR_JOBS = (up, submit, plan, queue, why, why_preempted, status, logs, cancel)
FOR_THE_FLEET = (
    top,
    gpus,
    shares,
    cost,
    rules,
    fleet,
    tenant,
    token,
    notify,
    chaos,
    doctor,
    render,
    slurm,
)
FOR_STUDIES = (simulate, compare, whatif, trace)


def build_parser() -> argparse.ArgumentParser:
    """Every command and every option, with what it is for."""
    parser: argparse.ArgumentParser = Parser(
        prog="bursar",
        description="Decides who runs where, when, and at whose cost, for teams that share GPUs.",
        epilog="'bursar COMMAND --help' says more about a command and shows examples.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"bursar {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in (*FOR_JOBS, *FOR_THE_FLEET):
        command.add_parser(commands)
    _add_demo(commands)
    for command in (*FOR_STUDIES, completion):
        command.add_parser(commands)
    return parser


def _add_demo(commands: Subparsers) -> None:
    shows = new_parser(
        commands,
        "demo",
        (
            "run a demonstration fleet through the simulator; say what happened and why",
            "Simulates a day of one company with 80 GPUs and three teams, checks every "
            "decision, and tells what happened and why. The same seed gives the same output.",
        ),
        ("bursar demo --seed 3",),
    )
    shows.add_argument("--verbose", action="store_true", help="tell every moment and every hold")
    shows.add_argument(
        "--seed",
        type=int,
        default=DEMO_SEED,
        metavar="N",
        help=f"when the small jobs arrive and how long they run (default {DEMO_SEED})",
    )


def suggestion(named: str) -> str:
    """The command that was probably meant, and all there are."""
    from bursar.model.suggestion import did_you_mean

    names = sorted(COMMANDS)
    return f"{did_you_mean(named, names)} The commands are: {', '.join(names)}.".lstrip()


if __name__ == "__main__":
    sys.exit(main())
