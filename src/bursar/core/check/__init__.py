"""An independent checker of any set of decisions; it knows nothing of how they were made."""

from bursar.core.check.upkeep import StateDrift, state_faults
from bursar.core.check.verdict import Fault, check, require_sound

__all__ = ["Fault", "StateDrift", "check", "require_sound", "state_faults"]
