"""Prints at the end of a run how many published cases our core agrees with."""

from __future__ import annotations

import pytest

from tests.oracle.runner import PUBLISHED_CASES

PUBLISHED_TEST = "oracle/test_oracle.py::test_a_published_case_comes_out_as_published["

PRINTED = pytest.StashKey[bool]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Counts reports, not items: with several workers only reports reach who prints.

    Printed once, though a conftest further up may have taken this function over: with several workers
    the process that prints does not look into this folder by itself.
    """
    if terminalreporter.config.stash.get(PRINTED, False):
        return
    terminalreporter.config.stash[PRINTED] = True
    outcomes: dict[str, int] = {}
    for outcome in ("passed", "xfailed", "failed", "error"):
        reports = terminalreporter.stats.get(outcome, [])
        outcomes[outcome] = sum(PUBLISHED_TEST in report.nodeid for report in reports)
    total = sum(outcomes.values())
    if total:
        terminalreporter.write_line(
            f"oracle: {outcomes['passed']} of {total} agree, "
            f"{outcomes['xfailed']} differ on purpose"
        )
    elif any(
        PUBLISHED_TEST in report.nodeid for report in terminalreporter.stats.get("skipped", [])
    ):
        terminalreporter.write_line(f"oracle: no published cases at {PUBLISHED_CASES}")
