"""Checks any set of decisions, independently of the scheduler's own indexes."""

from bursar.core.check.checker import check, require_no_faults, require_valid
from bursar.core.check.fault import Fault

__all__ = ["Fault", "check", "require_no_faults", "require_valid"]
