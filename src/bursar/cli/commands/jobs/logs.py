"""``bursar logs``: the output of a job."""

from __future__ import annotations

import argparse

from bursar.cli.arguments import CONNECTION, argument, command, one_or_more, whole
from bursar.cli.commands.jobs.wait import detach, follow, write_output
from bursar.cli.connection import connect, show_activity
from bursar.cli.exit_codes import OK


@command(
    "logs",
    argument("job", metavar="JOB", help="job id"),
    argument("-f", "--follow", action="store_true", help="continue until the job ends"),
    argument("--tail", type=one_or_more, metavar="N", help="only the last N lines"),
    argument("--task", type=whole, metavar="N", help="only this task (the first is 0)"),
    argument("--stream", choices=("stdout", "stderr"), help="only this stream"),
    argument(
        "--attempt", type=one_or_more, metavar="N", help="only this attempt (default: the last)"
    ),
    argument("--raw", action="store_true", help="print escape sequences unchanged"),
    CONNECTION,
    examples=("bursar logs -f j-abcdefghij", "bursar logs j-abcdefghij --stream stderr --tail 50"),
)
def logs(parsed: argparse.Namespace) -> int:
    """Print the output of a job; follow it with -f.

    Escape sequences that could affect the terminal are escaped, unless --raw is given. Ctrl-C stops
    following, not the job.
    """
    filters: dict[str, str | int] = {
        name: value
        for name in ("tail", "task", "stream", "attempt")
        if (value := getattr(parsed, name)) is not None
    }
    with connect(parsed) as client:
        if parsed.follow:
            try:
                follow(client, parsed.job, filters, raw=parsed.raw)
            except KeyboardInterrupt:
                return detach(parsed.job)
            return OK
        with show_activity("reading the output"):
            text = client.log_text(parsed.job, **filters)
    from bursar.client.function_result import without_results

    write_output(text if parsed.raw else without_results(text), raw=parsed.raw)
    return OK
