"""``bursar logs``: the output of a job."""

from __future__ import annotations

import argparse

from bursar.cli.arguments import CONNECTION, argument, choice, command, flag, one_or_more, whole
from bursar.cli.commands.jobs.wait import detach, follow, write_output
from bursar.cli.connection import connect, show_activity
from bursar.cli.exit_codes import OK


@command(
    "logs",
    argument("job", "JOB", "job id"),
    flag("-f --follow", "continue until the job ends"),
    argument("--tail", "N", "only the last N lines", type=one_or_more),
    argument("--task", "N", "only this task (the first is 0)", type=whole),
    choice("--stream", ("stdout", "stderr"), "only this stream"),
    argument("--attempt", "N", "only this attempt (default: the last)", type=one_or_more),
    flag("--raw", "print escape sequences unchanged"),
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
