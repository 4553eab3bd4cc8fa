"""Spot, on demand or wait, under deadlines: what each rule costs on recorded spot capacity.

Words: a *rule* is a policy of ``core/deadline``, a *cell* one job size on one set of histories, the
*optimum* what somebody who knew the future would have paid.
"""

from bursar.simulate.spot_study.cells import JobSize
from bursar.simulate.spot_study.study import HistoryStudy, SpotOutcome, run_history_study

__all__ = ["HistoryStudy", "JobSize", "SpotOutcome", "run_history_study"]
