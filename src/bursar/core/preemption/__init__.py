"""Preemption: which running jobs may be stopped for a waiting one, and which few suffice.

Eligibility and search follow Kueue; the order among equally eligible victims is ours. See README.md.
"""

from bursar.core.preemption.candidates import (
    Candidate,
    PreemptionRules,
    Preemptor,
    TrialPlacement,
    Victim,
)
from bursar.core.preemption.choose_victims import choose_victims
from bursar.core.preemption.eligibility import may_preempt

__all__ = [
    "Candidate",
    "PreemptionRules",
    "Preemptor",
    "TrialPlacement",
    "Victim",
    "choose_victims",
    "may_preempt",
]
