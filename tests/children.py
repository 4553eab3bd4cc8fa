"""What the children of tests must not inherit from whoever started the tests."""

from __future__ import annotations

import os
import signal


def with_ctrl_c() -> None:
    """As ``preexec_fn``: SIGINT ends the child, also where nohup or ``&`` had it ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def clean_environment() -> dict[str, str]:
    """Without the variables by which git, make and pytest steer what they start themselves."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GIT_", "MAKE", "MFLAGS", "PYTEST_"))
    }
