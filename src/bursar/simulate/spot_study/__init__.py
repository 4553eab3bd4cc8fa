"""Compares the cost of deadline rules on recorded spot capacity.

A *rule* is a policy of ``core/deadline``, a *cell* is one job size on one set of histories, and the
*optimum* is the least cost with knowledge of the future.
"""

from bursar.simulate.spot_study.cells import JobSize
from bursar.simulate.spot_study.study import HistoryStudy, SpotOutcome, run_history_study

__all__ = ["HistoryStudy", "JobSize", "SpotOutcome", "run_history_study"]
