"""An independent checker of any set of decisions; it knows nothing of how they were made."""

from bursar.core.check.checker import check, require_no_faults, require_valid
from bursar.core.check.fault import Fault

__all__ = ["Fault", "check", "require_no_faults", "require_valid"]
