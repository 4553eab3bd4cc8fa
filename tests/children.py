"""What child processes of tests must not inherit from the process that started the tests."""

from __future__ import annotations

import os
import signal


def with_ctrl_c() -> None:
    """As ``preexec_fn``: SIGINT ends the child, also where nohup or ``&`` had it ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def clean_environment() -> dict[str, str]:
    """The environment without the variables that git, make and pytest set for their children."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GIT_", "MAKE", "MFLAGS", "PYTEST_"))
    }
