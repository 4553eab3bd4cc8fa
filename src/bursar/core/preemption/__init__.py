"""Preemption: who may be stopped for whom, and which small set of victims is enough.

Legality and search follow what Kueue publishes; the order among equally legal victims is ours to
choose. Words: a *preemptor* waits, *candidates* run and may legally be stopped for it, *victims*
are the candidates chosen, a *trial* supposes that some of them had stopped.
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
