"""Renders the tenant tree as accounts, QOS, limits, partitions and settings of Slurm."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bursar.config import parse_fleet
from bursar.engines.slurm.governed.conf import conf_text, partition_line
from bursar.engines.slurm.governed.desired import AccountMember, Qos, SlurmAccount, SlurmSetup
from bursar.engines.slurm.governed.difference import commands_for, difference
from bursar.engines.slurm.governed.present import CurrentSetup
from bursar.engines.slurm.governed.render import (
    RenderOptions,
    budget_billing_minutes,
    render,
    slurm_cluster,
)
from bursar.model.errors import UserError
from bursar.model.tenants.tenant import Budget, BudgetPeriod
from bursar.model.units import DAY_MS, USD_MICRO

FLEET = """
clusters: {site: {engine: slurm}}
pools:
  t4:
    market: owned
    gpus: t4 x 4
    cpus: 32
    memory_gib: 64
    usd_per_node_hour: 1.6
    labels: {slurm.partition: training inference}
    nodes: [n1, n2, n3, n4]
  a100:
    market: owned
    gpus: a100 x 8
    cpus: 64
    memory_gib: 256
    usd_per_node_hour: 14.4
    labels: {slurm.partition: training}
    nodes: [big1, big2]
tenants:
  acme:
    children:
      Vision:
        weight: 1.5
        quotas: {t4/owned: 8, a100/owned: {gpus: {nominal: 8, borrow: 4}}}
        budget: {usd: 100, period: day, enforcement: hard}
      serving:
        quotas: {t4/owned: {gpus: {nominal: 8, borrow: 0}}, a100/owned: {gpus: {nominal: 0, borrow: 0}}}
        preemption: {reclaim: never}
      guests:
        queueing: strict
policies: {preemption: {minimum_run: 2 min}, order: {half_life: 7 d}}
"""


def rendered(text: str = FLEET, **more: object) -> SlurmSetup:
    file = parse_fleet({"fleet.yaml": text})
    options = RenderOptions(cluster="site", grace_seconds=20)
    return render(file.fleet, file.tenants, file.policies, replace(options, **more))  # type: ignore[arg-type]


def test_tenants_become_accounts() -> None:
    by_name = {one.name: one for one in rendered().accounts}
    assert by_name["acme"] == SlurmAccount(
        name="acme", shares=100, most={"gres/gpu:a100": 8, "gres/gpu": 24}
    )
    vision = by_name["vision"]
    assert (vision.parent, vision.shares) == ("acme", 150)
    assert vision.most == {"gres/gpu:a100": 12, "gres/gpu": 28}
    assert vision.qos == ("vision", "vision-borrow")
    assert by_name["serving"].most == {"gres/gpu:t4": 8, "gres/gpu:a100": 0, "gres/gpu": 8}
    assert by_name["serving"].qos == ("serving",)
    assert by_name["guests"].qos == ("guests-borrow",)


def test_quotas_become_qos() -> None:
    by_name = {one.name: one for one in rendered().qos}
    assert by_name["vision"] == Qos(
        name="vision",
        priority=1_000,
        most={"gres/gpu:t4": 8, "gres/gpu:a100": 8, "gres/gpu": 16},
        preempts=("guests-borrow", "vision-borrow"),
        grace_seconds=20,
    )
    assert by_name["vision-borrow"].most == {"gres/gpu:a100": 4, "gres/gpu": 20}
    assert by_name["vision-borrow"].priority == 0
    assert by_name["serving"].preempts == ()
    assert sorted(by_name) == ["guests-borrow", "serving", "vision", "vision-borrow"]


def test_without_quotas_there_are_no_qos() -> None:
    setup = rendered(FLEET.split("tenants:")[0] + "tenants: {acme: {children: {vision: {}}}}\n")
    assert setup.qos == ()
    assert [one.qos for one in setup.accounts] == [(), ()]


def test_pools_become_partitions_with_the_ledgers_prices() -> None:
    training, inference = rendered().partitions
    assert training.nodes == ("n1", "n2", "n3", "n4", "big1", "big2")
    assert inference.billing == {"CPU": "50.000", "Mem": "25.000G", "GRES/gpu:t4": "400.000"}
    assert training.billing["GRES/gpu:a100"] == "1800.000"
    assert partition_line(inference) == (
        "PartitionName=inference Nodes=n[1-4] MaxTime=UNLIMITED DefaultTime=1-00:00:00 "
        'TRESBillingWeights="CPU=50.000,Mem=25.000G,GRES/gpu:t4=400.000" State=UP'
    )


def test_settings_follow_the_policies() -> None:
    lines = conf_text(rendered()).splitlines()
    assert "PriorityDecayHalfLife=7-00:00:00" in lines
    assert "PreemptExemptTime=00:02:00" in lines
    assert "AccountingStorageTRES=gres/gpu,gres/gpu:a100,gres/gpu:t4" in lines


def test_settings_that_slurm_cannot_express_are_noted() -> None:
    notes = "\n".join(rendered().notes)
    assert "guests: queueing strict" in notes
    assert "priority classes (low -100, normal, high +100, critical +1000)" in notes
    assert "partition training: its pools differ in price" in notes


def test_a_lending_limit_is_noted() -> None:
    notes = "\n".join(rendered(FLEET.replace("nominal: 8, borrow: 4", "nominal: 8, lend: 2")).notes)
    assert "Vision: lend of a100-40gb/owned; in Slurm all idle capacity is lent" in notes


def test_a_single_priority_class_is_not_noted() -> None:
    one_class = f"{FLEET}priority_classes: {{normal: 0}}\n"
    assert "priority classes" not in "\n".join(rendered(one_class).notes)


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ("Vision:", "root:", "slurm-name-taken"),
        ("guests:", "VISION:", "slurm-name-taken"),
        ("engine: slurm", "engine: local", "no-slurm"),
    ],
)
def test_an_impossible_setup_is_refused(before: str, after: str, code: str) -> None:
    file = parse_fleet({"fleet.yaml": FLEET.replace(before, after)})
    options = RenderOptions(cluster="site")
    with pytest.raises(UserError) as refused:
        render(
            file.fleet,
            file.tenants,
            file.policies,
            replace(options, cluster=slurm_cluster(file.fleet, None)),
        )
    assert refused.value.code == code


def test_a_user_without_a_queue_is_refused() -> None:
    with pytest.raises(UserError, match="'acme' is not a queue"):
        rendered(members=(AccountMember(user="ann", account="acme"),))


# -- budgets -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("half_life_days", [1, 7, 30])
def test_no_period_costs_more_than_a_hard_budget_however_it_is_spent(half_life_days: int) -> None:
    """Spend as fast as the limit allows, hour by hour, and check every period."""
    budget = Budget(amount_micro_usd=100 * USD_MICRO, period=BudgetPeriod.WEEK)
    most = budget_billing_minutes(budget, half_life_days * DAY_MS) / 60_000
    kept = 0.5 ** (1 / (24 * half_life_days))
    usage, spent = 0.0, []
    for _ in range(24 * 28):
        usage *= kept
        spent.append(most - usage)
        usage = most
    worst = max(sum(spent[at : at + 24 * 7]) for at in range(len(spent) - 24 * 7))
    assert 95 < worst <= 100


def test_without_a_half_life_the_whole_budget_is_the_limit() -> None:
    budget = Budget(amount_micro_usd=USD_MICRO)
    assert budget_billing_minutes(budget, None) == 60_000


# -- differences -------------------------------------------------------------------------------------


def present_of(setup: SlurmSetup) -> CurrentSetup:
    """A cluster with exactly this setup."""
    sorted_qos = [replace(one, preempts=tuple(sorted(one.preempts))) for one in setup.qos]
    accounts = [replace(one, qos=tuple(sorted(one.qos))) for one in setup.accounts]
    return CurrentSetup(
        cluster="site",
        qos={one.name: one for one in sorted_qos},
        accounts={"root": SlurmAccount(name="root"), **{one.name: one for one in accounts}},
        members=frozenset(setup.members),
        partitions={one.name: one for one in setup.partitions},
        settings=setup.settings,
    )


def change_commands(desired: SlurmSetup, present: CurrentSetup) -> list[str]:
    return [" ".join(one.argv[3:]) for one in difference(desired, present).changes]


def test_an_identical_setup_is_not_changed() -> None:
    setup = rendered(members=(AccountMember(user="ann", account="serving"),))
    assert difference(setup, present_of(setup)).is_empty


def test_only_differences_are_changed() -> None:
    present = present_of(rendered())
    assert change_commands(rendered(FLEET.replace("weight: 1.5", "weight: 2")), present) == [
        "modify account where name=vision Cluster=site set Fairshare=200"
    ]
    assert change_commands(
        rendered(members=(AccountMember(user="ann", account="serving"),)), present
    ) == ["add user ann Account=serving Cluster=site"]
    more = rendered(FLEET.replace("t4/owned: 8,", "t4/owned: 12,"))
    assert change_commands(more, present) == [
        "modify qos vision set GrpTRES=gres/gpu=20,gres/gpu:t4=12"
    ]


def test_a_limit_that_is_no_longer_desired_is_removed() -> None:
    present = present_of(rendered())
    unlimited = FLEET.replace("a100/owned: {gpus: {nominal: 8, borrow: 4}}", "a100/owned: 8")
    assert change_commands(rendered(unlimited), present) == [
        "modify qos vision-borrow set GrpTRES=gres/gpu=-1,gres/gpu:a100=-1",
        "modify account where name=vision Cluster=site set GrpTRES=gres/gpu=-1,gres/gpu:a100=-1",
    ]


def test_a_qos_is_created_before_another_may_preempt_it_and_parents_before_children() -> None:
    commands = [" ".join(one.argv[3:6]) for one in commands_for(rendered(), "site")]
    assert commands.index("add qos vision-borrow") < commands.index("modify qos vision")
    assert commands.index("add account acme") < commands.index("add account vision")


def test_accounts_that_are_not_in_the_fleet_are_listed_and_not_changed() -> None:
    present = present_of(rendered())
    stranger = {**present.accounts, "physics": SlurmAccount(name="physics")}
    result = difference(rendered(), replace(present, accounts=stranger))
    assert result.unknown_accounts == ("physics",)
    assert result.changes == ()


def test_slurm_conf_is_compared_by_meaning() -> None:
    setup = rendered()
    present = present_of(setup)
    same = {
        **present.settings,
        "PriorityDecayHalfLife": "7-00:00:00",
        "PriorityFlags": "MAX_TRES,CALCULATE_RUNNING",
    }
    assert difference(setup, replace(present, settings=same)).conf == ()
    other = {**present.settings, "PriorityDecayHalfLife": "14-00:00:00"}
    assert difference(setup, replace(present, settings=other)).conf == (
        "PriorityDecayHalfLife=7-00:00:00",
    )
    closed = {name: one for name, one in present.partitions.items() if name != "inference"}
    (line,) = difference(setup, replace(present, partitions=closed)).conf
    assert line.startswith("PartitionName=inference Nodes=n[1-4]")
