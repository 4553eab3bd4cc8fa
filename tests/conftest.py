"""The number of examples of property tests: few by default, more with ``HYPOTHESIS_PROFILE``."""

import os

from hypothesis import HealthCheck, settings

from tests.oracle.conftest import pytest_terminal_summary
from tests.support.shared_slurm_lab import SHARED_LAB

__all__ = ["pytest_terminal_summary"]

settings.register_profile(
    "quick",
    max_examples=20,
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("full", settings.get_profile("quick"), max_examples=60)
settings.register_profile(
    "thorough",
    settings.get_profile("quick"),
    max_examples=1_000,
    derandomize=False,
    print_blob=True,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def pytest_sessionfinish() -> None:
    """The last process that used the Slurm cluster of this run stops it."""
    SHARED_LAB.release()
