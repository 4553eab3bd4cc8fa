"""The scheduling policies of a fleet file: what each key means, and how they are read and written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bursar.config.fleet.pools import known_model
from bursar.config.yaml.dataclass_tables import Meanings, dataclass_format
from bursar.config.yaml.key_tables import ValueFormat
from bursar.config.yaml.value_readers import InvalidValue
from bursar.model.tenants import governance as rules
from bursar.model.tenants import policy

PRIORITY_CLASSES = "priority_classes"
_RULE = {
    "mode": "dry-run: the rule only reports; enforce: it also rejects",
    "owner": "the person or team responsible for the rule",
    "exempt_priorities": "the priority classes that are exempt from the rule",
}
MEANINGS: Meanings = {
    policy.Policies: {
        "order": "the order in which waiting jobs are considered",
        "placement": "which of the nodes that fit is taken",
        "placement_seed": "the seed of random placement",
        "backfill": "the reservations of blocked jobs, around which others may start",
        "preemption": "limits on which jobs are preempted, and how often",
        "spot": "how jobs that may run on spot choose",
        "governance": "rules that apply regardless of budget and quota",
    },
    policy.OrderPolicy: {
        "share": "how tenants of equal priority are compared",
        "terms": "what jobs of one queue are sorted by, first term first",
        "half_life": "after this time usage counts half; null: it never decays",
        "usage_unit": "what fair share counts",
        "entry_horizon": "how far ahead a start is charged when shares are compared",
        "attained_levels_gpu": "GPU time at which a job drops a level, for least-attained",
        "aging_step": "a waiting job gains one priority for each such time; null: never",
        "urgent_slack": "a job this close to missing its deadline is urgent",
    },
    policy.BackfillPolicy: {
        "reservations": "how many blocked kinds of job get a reservation; 0: none",
        "unknown_run_time": "the run time assumed for a job without an estimate",
        "reserve_unknown_after": "how long a job without an estimate waits for a reservation",
    },
    policy.PreemptionLimits: {
        "victim_order": "which of several equally legal victims goes first",
        "fair_strategies": "when a fair share justifies a victim in another queue",
        "minimum_run": "no job is preempted before it has run this long",
        "preemptions_per_job": "how often one job may be preempted",
        "searches_per_cycle": "for how many jobs victims are searched in one cycle",
        "turn_ratio": "in time sharing, a job is stopped for one that needs this many times less GPU time",
        "turn_part_of_pool": "such a job holds at most 1/N of the GPUs of its pool",
        "settled_after": "a job submitted longer ago is not stopped for sharing; null: no limit",
    },
    policy.SpotPolicy: {
        "deadline_rule": "where a job with a deadline runs that may run on spot",
        "tick": "how often such a job is checked when nothing happens",
        "change_over": "how long an attempt takes to stop and start elsewhere, besides its restart",
        "half_life": "after this time the loss of a spot node counts half",
        "spread_percent": "similar jobs use spot pools that are dearer by less than this; "
        "0: only the cheapest",
    },
    rules.Governance: {
        "spot_mandatory": "jobs do not buy on-demand: owned, reserved and spot are open",
        "rate_ceiling": "no job costs more in an hour",
        "restricted_models": "jobs with a label do not run on some GPU models",
        "idle_nodes": "reports nodes paid by the hour that are idle for long",
        "right_size": "a hint for jobs that request far more time than similar jobs took",
    },
    rules.SpotMandatory: _RULE,
    rules.RateCeiling: {**_RULE, "usd_per_hour": "the most dollars that a job may cost in an hour"},
    rules.ModelRestriction: {
        **_RULE,
        "models": "the GPU models, by any of their common names",
        "label": "the label of the jobs, written key=value",
    },
    rules.IdleNodes: {**_RULE, "after": "how long a node may be idle"},
    rules.RightSize: {
        **_RULE,
        "runs": "how many similar jobs must have ended",
        "times": "the longest of them took less than 1/N of the requested time",
    },
}
_DECLARED = dataclass_format(policy.Policies, "policies", MEANINGS, leave_out=(PRIORITY_CLASSES,))


def _read_policies(value: Any) -> policy.Policies:
    """Policies, with each GPU model of a rule under its one name in the catalog."""
    read: policy.Policies = _DECLARED.read(value)
    try:
        restricted = tuple(
            replace(rule, models=tuple(known_model(name).name for name in rule.models))
            for rule in read.governance.restricted_models
        )
    except InvalidValue as error:
        raise error.inside("governance", "restricted_models") from None
    return replace(read, governance=replace(read.governance, restricted_models=restricted))


POLICIES = ValueFormat(_read_policies, _DECLARED.schema, _DECLARED.write)
