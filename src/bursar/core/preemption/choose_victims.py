"""Runs the victim search of the policy, by fair share or by hierarchy; it stops nothing itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bursar.core.preemption.candidates import Candidate, PreemptionRules, Preemptor, Victim
from bursar.core.preemption.fair_search import FairSearch
from bursar.core.preemption.hierarchy_search import search_by_hierarchy
from bursar.core.preemption.trial import Trial
from bursar.core.quota.quota_tree import QuotaTree
from bursar.model.tenants.policy import PreemptionPolicy


def choose_victims(
    tree: QuotaTree,
    preemptor: Preemptor,
    running: Mapping[str, Sequence[Candidate]],
    policies: Mapping[str, PreemptionPolicy],
    rules: PreemptionRules,
) -> tuple[Victim, ...]:
    """A small set of victims whose end makes the preemptor fit; empty if there is no legal set.

    ``running`` has the candidates by queue. The search changes the tree and the trial placement and restores
    both. Call it only for a job that does not fit: the first check comes after the first victim.
    """
    policy = policies.get(preemptor.queue, PreemptionPolicy())
    with Trial(tree, preemptor, rules.placement) as trial:
        if rules.fair_strategies:
            return FairSearch(trial, rules).victims(running, policy)
        return search_by_hierarchy(trial, running, policy, rules.victim_order)
