"""Answers for the fair-share families: Fair Tree, classic fair-share, admission fair sharing."""

from __future__ import annotations

from typing import Any

from bursar.core.other_schedulers.kueue_admission_share import (
    AdmissionShareRules,
    AdmissionShares,
    WaitingJob,
    in_queue_order,
    sample,
    usage_score,
)
from bursar.core.other_schedulers.slurm_classic_share import ClassicShare, classic_shares
from bursar.core.other_schedulers.slurm_fair_tree import ShareHolder, ShareTree, rank_fair_tree
from tests.oracle.answer_quota import keys, note_unread

Case = dict[str, Any]
Fixtures = dict[str, Any]

USAGE_BASED = "UsageBasedAdmissionFairSharing"

_HISTORY_KEYS = keys(
    "consumed entry_penalty resource_weights half_life_s sampling_interval_s deleted_local_queue",
    local_queues=keys("name weight"),
)
_WAITING = "name local_queue priority created sticky"
_TREE_KEYS = keys("dampening", associations=keys("id parent account user raw_shares raw_usage"))


def answer_fair_tree(case: Case, fixtures: Fixtures) -> str | None:
    note_unread(case["input"], _TREE_KEYS)
    tree, usage, names = _associations(case)
    ranks = rank_fair_tree(tree, usage)
    factors = {names[tenant]: {"fairshare": ranks[tenant].factor} for tenant in tree.users()}
    return _compare_users(case, factors)


def answer_classic(case: Case, fixtures: Fixtures) -> str | None:
    note_unread(case["input"], _TREE_KEYS)
    tree, usage, names = _associations(case)
    shares = classic_shares(tree, usage, case["input"].get("dampening", 1))
    found = {
        names[tenant]: _classic_figures(tree.holder(tenant), usage[tenant], shares[tenant])
        for tenant in tree.users()
    }
    return _compare_users(case, found)


def _classic_figures(holder: ShareHolder, usage: float, share: ClassicShare) -> dict[str, Any]:
    return {
        "raw_shares": "parent" if holder.shares is None else holder.shares,
        "raw_usage": usage,
        "norm_shares": share.norm_shares,
        "norm_usage": share.norm_usage,
        "effective_usage": share.effective_usage,
        "fairshare": share.factor,
    }


def _associations(case: Case) -> tuple[ShareTree, dict[str, float], dict[str, tuple[str, str]]]:
    """The tree of a case, the usage of each node, and the (account, user) of each user.

    Ids may repeat among users, so a node is identified by its position; parents are accounts. Only the
    usage of users counts: Slurm itself sums it up to the root and ignores earlier usage of accounts.
    """
    rows = case["input"]["associations"]
    keys = [f"{position:05d}" for position in range(len(rows))]
    accounts = {row["id"]: key for key, row in zip(keys, rows, strict=True) if row["user"] is None}
    holders, usage, names = {}, dict.fromkeys(keys, 0.0), {}
    for key, row in zip(keys, rows, strict=True):
        holders[key] = ShareHolder(
            tenant=key,
            parent=None if row["parent"] is None else accounts[row["parent"]],
            shares=None if row["raw_shares"] == "parent" else row["raw_shares"],
            is_user=row["user"] is not None,
        )
        if row["user"] is not None:
            names[key] = (row["account"], row["user"])
    for key in names:
        at: str | None = key
        while at is not None:
            usage[at] += rows[int(key)]["raw_usage"]
            at = holders[at].parent
    return ShareTree(holders.values()), usage, names


def _compare_users(case: Case, found: dict[tuple[str, str], dict[str, Any]]) -> str | None:
    tolerance = case["expect"].get("tolerance", 1e-6)
    for want in case["expect"]["users"]:
        got = found.get((want["account"], want["user"]))
        if got is None:
            return f"{want['account']}/{want['user']} has no fair share"
        for figure, value in want.items():
            if figure in ("account", "user"):
                continue
            if figure not in got:
                return f"expect.users has {figure!r}, which we do not compute"
            if not _near(got[figure], value, tolerance):
                return f"{want['user']}: {figure} is {got[figure]}, published {value}"
    return None


def answer_usage_score(case: Case, fixtures: Fixtures) -> str | None:
    given = case["input"]
    note_unread(given, keys("consumed entry_penalty local_queue_weight resource_weights"))
    got = usage_score(
        given.get("consumed") or {},
        given.get("entry_penalty") or {},
        given.get("local_queue_weight", 1),
        given.get("resource_weights") or {},
    )
    want = case["expect"]["usage"]
    return None if _near(got, want, 1e-9) else f"usage is {got}, published {want}"


def answer_queue_head(case: Case, fixtures: Fixtures) -> str | None:
    given = case["input"]
    note_unread(
        given, keys("admission_mode afs_configured", workloads=keys(_WAITING), **_HISTORY_KEYS)
    )
    shares = _shares(given) if given.get("afs_configured", True) else None
    if given.get("admission_mode") != USAGE_BASED:
        shares = None
    waiting = [_waiting(row) for row in given["workloads"]]
    order = in_queue_order(waiting, shares)
    got, want = (order[0].job if order else None), case["expect"]["head"]
    return None if got == want else f"the head is {got}, published {want}"


def answer_cycles(case: Case, fixtures: Fixtures) -> str | None:
    """One head per cycle is checked against the queue's quota; one that does not fit is skipped."""
    given = case["input"]
    quota = dict(given["queue"]["nominal"])
    workload_keys = keys(_WAITING, **dict.fromkeys(quota))
    queue_keys = {"workloads": workload_keys, "queue": keys("name nominal")}
    note_unread(given, keys("afs_enabled cycles", **queue_keys, **_HISTORY_KEYS))
    shares = _shares(given) if given.get("afs_enabled", True) else None
    rows = {row["name"]: row for row in given["workloads"]}
    waiting = [_waiting(row) for row in given["workloads"]]
    admitted: list[str] = []
    for _ in range(given.get("cycles", len(rows))):
        if not waiting:
            break
        head = in_queue_order(waiting, shares)[0]
        waiting.remove(head)
        wanted = {name: rows[head.job][name] for name in quota if name in rows[head.job]}
        fits = all(amount <= quota[name] for name, amount in wanted.items())
        if fits:
            admitted.append(head.job)
            quota = {name: quota[name] - wanted.get(name, 0) for name in quota}
        if shares is not None:
            _charge(shares, head, wanted, fits)
    want = sorted(case["expect"]["admitted"])
    return None if sorted(admitted) == want else f"admitted {sorted(admitted)}, published {want}"


def _charge(shares: AdmissionShares, head: WaitingJob, wanted: dict[str, int], fits: bool) -> None:
    """How a cycle updates the history: the head is nominated, then admitted or rejected."""
    shares.nominate(head.local_queue, head.job, _whole_units(wanted))
    if fits:
        shares.admit(head.local_queue, head.job, {}, 0)
    else:
        shares.refuse(head.local_queue, head.job)


def _whole_units(requests: dict[str, int]) -> dict[str, float]:
    """Requests count millicores; history counts cores."""
    return {name: amount / 1000 if name == "cpu" else amount for name, amount in requests.items()}


def _shares(given: Case) -> AdmissionShares:
    gone = given.get("deleted_local_queue")
    shares = AdmissionShares(
        AdmissionShareRules(
            half_life_ms=round(given.get("half_life_s", 0) * 1000),
            sampling_interval_ms=round(given.get("sampling_interval_s", 300) * 1000),
            resource_weights=given.get("resource_weights") or {},
        ),
        {q["name"]: q.get("weight", 1) for q in given["local_queues"] if q["name"] != gone},
    )
    for name, consumed in sorted((given.get("consumed") or {}).items()):
        shares.restore(name, consumed, 0)
    for name, penalty in sorted((given.get("entry_penalty") or {}).items()):
        consumed = {**shares.consumed(name)}
        for resource, amount in penalty.items():
            consumed[resource] = consumed.get(resource, 0) + amount
        shares.restore(name, consumed, 0)
    return shares


def _waiting(row: dict[str, Any]) -> WaitingJob:
    return WaitingJob(
        job=row["name"],
        local_queue=row["local_queue"],
        priority=row.get("priority", 0),
        queued_at_ms=round(row.get("created", 0) * 1000),
        sticky=row.get("sticky", False),
    )


def answer_decay(case: Case, fixtures: Fixtures) -> str | None:
    """Consumption sampled at a fixed interval, compared after one or more periods."""
    given, expect = case["input"], case["expect"]
    half_life_s = given.get("half_life_s")
    interval_s = _either(given, "sampling_interval_s", "elapsed_s", "interval_s")
    in_use = _either(given, "usage", "new_usage", "current_usage", "admitted_usage", "admitted")
    if half_life_s is None or not interval_s or in_use is None:
        return f"input has {sorted(given)}; half_life_s, sampling_interval_s, usage are needed"
    samples_per = {"half": half_life_s / interval_s, "sample": 1.0, "elapsed": 1 / interval_s}
    readings = [r for key in expect for r in _readings(key, expect[key], given, samples_per)]
    if not readings:
        return f"expect has {sorted(expect)}; no consumption after some time was found"
    in_use = in_use if isinstance(in_use, dict) else {"amount": in_use}
    consumed = _either(given, "consumed", "old_usage", "initial_consumed") or {}
    consumed = consumed if isinstance(consumed, dict) else dict.fromkeys(in_use, consumed)
    taken, step_ms, half_life_ms = 0, round(interval_s * 1000), round(half_life_s * 1000)
    for samples, want in sorted(readings, key=lambda reading: reading[0]):
        while taken < samples:
            consumed = sample(consumed, in_use, step_ms, half_life_ms)
            taken += 1
        wanted = want if isinstance(want, dict) else dict.fromkeys(in_use, want)
        for name, amount in sorted(wanted.items()):
            got = consumed.get(name, 0)
            if not _near(got, amount, expect.get("tolerance", 1e-3)):
                return f"after {samples} samples {name} is {got}, published {amount}"
    return None


def _readings(
    key: str, value: Any, given: Case, samples_per: dict[str, float]
) -> list[tuple[int, Any]]:
    """The consumption that one key of ``expect`` states, as (samples taken, amounts).

    A key that contains half-lives, samples or elapsed seconds has amounts by that measure, or a list
    of the amounts after 1, 2, ... of them. A plain amount is expected at the end of the input.
    """
    if key == "tolerance":
        return []
    measure = next((samples_per[word] for word in samples_per if word in key), None)
    if measure is not None and isinstance(value, dict):
        return [(round(float(n) * measure), want) for n, want in value.items()]
    if isinstance(value, list):
        measure = samples_per["half"] if measure is None else measure
        return [_reading(n, want, measure, samples_per) for n, want in enumerate(value, start=1)]
    if measure is not None:
        return []
    end = {"half": given.get("half_lives"), "sample": given.get("samples")}
    samples = [round(n * samples_per[word]) for word, n in end.items() if n is not None]
    return [(samples[0] if samples else 1, value)]


def _reading(
    number: int, want: Any, measure: float, samples_per: dict[str, float]
) -> tuple[int, Any]:
    """One entry of a list: amounts with their own time, or by position in the list."""
    if isinstance(want, dict):
        for key in want:
            own = next((samples_per[word] for word in samples_per if word in key), None)
            if own is not None:
                rest = {name: want[name] for name in want if name != key}
                return round(want[key] * own), rest.get("consumed", rest)
    return round(number * measure), want


def _either(given: Case, *keys: str) -> Any:
    return next((given[key] for key in keys if key in given), None)


def _near(got: Any, want: Any, tolerance: float) -> bool:
    if isinstance(got, str) or isinstance(want, str):
        return bool(got == want)
    return bool(got == want) or abs(got - want) <= tolerance


FAMILIES = {
    "fair_tree": answer_fair_tree,
    "classic_fairshare": answer_classic,
    "afs_usage_score": answer_usage_score,
    "afs_queue_head": answer_queue_head,
    "afs_cycles": answer_cycles,
    "afs_decay": answer_decay,
}
