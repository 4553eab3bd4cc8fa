"""Every key of the fleet file and what it means. The reader refuses what is not here.

``docs/fleet-file.md`` explains each; a test compares the two. Policies are not listed: their keys
are the fields of ``bursar.model.tenants.policy``, times without their unit.
"""

from __future__ import annotations

FILE = {
    "clusters": "the clusters, by name",
    "pools": "the pools, by name",
    "tenants": "the tenants, by name, nested or flat",
    "priority_classes": "ranks by name; a higher number goes first",
    "policies": "choices by name: order, placement, backfill, preemption",
}
CLUSTER = {
    "engine": "what runs its jobs: local, slurm, kubernetes or simulated",
    "topology": "levels of nearness, widest first; each node has a label for each",
    "nodes": "how many nodes: makes one owned pool with the cluster's name, the short form",
    "gpus": "GPUs of each node of that pool, as in 't4 x 4'; left out: none",
    "cpus": "CPUs of each node of that pool",
    "memory_gib": "GiB of memory of each node of that pool",
    "disk_gib": "GiB of local disk of each node of that pool",
    "usd_per_node_hour": "what an hour of a node of that pool costs",
}
POOL = {
    "cluster": "the cluster it is in; may be left out when there is only one",
    "market": "owned, reserved, on-demand or spot",
    "gpu_model": "the GPU model, by any name it is known by; left out: no GPUs",
    "gpus_per_node": "GPUs on each node",
    "gpus": "both in one, as in 't4 x 4'",
    "cpus": "CPUs on each node",
    "memory_gib": "GiB of memory on each node",
    "disk_gib": "GiB of local disk on each node",
    "usd_per_node_hour": "what an hour of a node costs, amortised when owned",
    "owned": "instead: what an owned node cost to buy and costs to run",
    "interruptions_per_million_hours": "how often a spot node is taken away",
    "labels": "labels of every node of the pool",
    "taints": "keep jobs off that do not tolerate them",
    "mig": "whether its GPUs may be cut by MIG",
    "mps_clients": "how many shares one GPU may have at most",
    "nodes": "how many, or a pattern, or a list",
}
OWNED = {
    "capex_usd": "what one node cost, with its part of network and storage",
    "life_years": "how long it is used",
    "residual_percent": "what part of that price it is sold for at the end",
    "support_usd_per_year": "what support of one node costs; left out: 10 % of its price",
    "power_kw": "what one node draws on average",
    "pue": "power of the building over that of the machines; left out: 1.5",
    "usd_per_kwh": "what electricity costs; left out: 0.098",
    "space_kw": "what one node may draw at most, for which space is paid; left out: power_kw",
    "space_usd_per_kw_month": "what space costs",
    "staff_usd_per_year": "one node's part of those who look after it",
}
TAINT = {"key": "the taint's name", "value": "its value; left out: empty"}
NODE_PATTERN = {
    "count": "how many nodes",
    "prefix": "their names are this and a number from 1; left out: the pool's name",
    "per_domain": "for each level, how many nodes in a row share a domain",
}
NODE = {"id": "its name, unlike any other", "labels": "labels of this node alone"}
TENANT = {
    "parent": "the tenant above, in a flat file; nested tenants have it by their place",
    "children": "the tenants below, by name",
    "queue": "whether jobs wait here; left out: yes for tenants without children",
    "weight": "its claim to a share, against its siblings",
    "quotas": "what it may hold of each flavor",
    "budget": "dollars that it means to spend in each period",
    "queueing": "best-effort or strict",
    "preemption": "whom its waiting jobs may preempt",
}
BUDGET = {
    "usd": "dollars for each period",
    "period": "day, week, month, quarter or year",
    "enforcement": "soft: warn. hard: let in only what the rest of the budget can pay for",
    "steps": "what happens at which percentage; left out: what is usual for the enforcement",
}
BUDGET_STEP = {
    "at_percent": "from so many percent of the amount on",
    "action": "notify, block-borrowing, block-new, stop-preemptible or stop-all; includes those before",
}
QUOTA = {"gpus": "GPUs, parts allowed", "cpus": "CPUs", "memory_gib": "GiB of memory"}
ALLOWANCE = {
    "nominal": "its own",
    "borrow": "how much more it may hold while others leave it idle; left out: no limit",
    "lend": "how much of its own others may hold while it is idle; left out: all",
}
PREEMPTION = {
    "within_queue": "never, lower-priority, lower-or-newer-equal-priority or later-in-order",
    "reclaim": "never, lower-priority or any",
    "borrow_while_reclaiming": "true, or up to which priority",
}
BORROWING = {"max_priority": "only victims up to this priority"}
