"""The study of spot and deadlines: rules of the core replayed against measured spot capacity.

Words: a *rule* is a policy of ``core/deadline``, a *cell* one job size on one set of traces, the
*optimum* what somebody who knew the future would have paid.
"""

from bursar.simulate.spot_study.cells import JobSize
from bursar.simulate.spot_study.study import PARTS, SpotOutcome, SpotRequest, run_spot_study

__all__ = ["PARTS", "JobSize", "SpotOutcome", "SpotRequest", "run_spot_study"]
