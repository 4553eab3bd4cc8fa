"""Reads the current setup of a cluster, as values of ``desired.py``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bursar.engines.slurm.commands.inventory import CommandRunner
from bursar.engines.slurm.governed.desired import (
    ROOT,
    AccountMember,
    Amounts,
    DesiredPartition,
    Qos,
    SlurmAccount,
)
from bursar.model.errors import EngineFault, UserError
from bursar.model.units import SECOND_MS
from bursar.slurm_text import (
    BadSlurmText,
    expand_hosts,
    parse_duration_ms,
    parse_memory_mib,
    parse_records,
    parse_table,
    parse_tres,
    value_or_empty,
)

ASSOC_FIELDS = "Account,ParentName,User,Partition,Share,GrpTRES,GrpTRESMins,QOS,DefaultQOS"
QOS_FIELDS = "Name,Priority,GraceTime,Preempt,GrpTRES"
HEADINGS = {"Par Name": "ParentName", "Def QOS": "DefaultQOS"}
"""Column headings of sacctmgr that differ from the names of the fields."""
PARENT_SHARES = "parent"


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentSetup:
    """The setup that a cluster has now, by name."""

    cluster: str
    qos: Mapping[str, Qos] = field(default_factory=dict)
    accounts: Mapping[str, SlurmAccount] = field(default_factory=dict)
    members: frozenset[AccountMember] = frozenset()
    partitions: Mapping[str, DesiredPartition] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)


def read_current_setup(commands: CommandRunner) -> CurrentSetup:
    """Query the whole setup, by five commands."""
    config = read_config(commands)
    if not config.get("AccountingStorageType", "").endswith("slurmdbd"):
        raise UserError(
            "this Slurm has no accounting: AccountingStorageType is "
            f"{config.get('AccountingStorageType') or 'not set'}.",
            fix="Run slurmdbd and set AccountingStorageType=accounting_storage/slurmdbd.",
            code="slurm-without-accounts",
        )
    cluster = config["ClusterName"]
    rows = read_associations(commands, cluster)
    return CurrentSetup(
        cluster=cluster,
        qos={one.name: one for one in read_qos(commands)},
        accounts={one.name: one for one in accounts_of(rows)},
        members=frozenset(
            AccountMember(user=row["User"], account=row["Account"])
            for row in rows
            if row["User"] and not row["Partition"]
        ),
        partitions={one.name: one for one in read_partitions(commands)},
        settings=config,
    )


def read_config(commands: CommandRunner) -> dict[str, str]:
    """``scontrol show config`` by key."""
    config = {}
    for line in commands.run("scontrol", "show", "config").splitlines():
        key, separator, value = line.partition("=")
        if separator:
            config[key.strip()] = value.strip()
    if "ClusterName" not in config:
        raise EngineFault("scontrol prints no ClusterName", retry_after_seconds=5.0)
    return config


def read_associations(commands: CommandRunner, cluster: str) -> list[dict[str, str]]:
    """Associations: accounts and, with a user, their members."""
    argv = ["sacctmgr", "-P", "show", "assoc", "where", f"cluster={cluster}"]
    rows = parse_table(commands.run(*argv, f"format={ASSOC_FIELDS}"))
    return [{HEADINGS.get(key, key): value for key, value in row.items()} for row in rows]


def accounts_of(rows: Iterable[Mapping[str, str]]) -> list[SlurmAccount]:
    """Accounts among associations, parents first."""
    return [
        SlurmAccount(
            name=row["Account"],
            parent=row["ParentName"] or ROOT,
            shares=0 if row["Share"] == PARENT_SHARES else int(row["Share"] or 1),
            most=amounts(row["GrpTRES"]),
            most_minutes=amounts(row["GrpTRESMins"]),
            qos=tuple(sorted(filter(None, row["QOS"].split(",")))),
            default_qos=row["DefaultQOS"],
        )
        for row in rows
        if not row["User"]
    ]


def read_qos(commands: CommandRunner) -> list[Qos]:
    """Every QOS, with the fields that Bursar manages."""
    argv = ["sacctmgr", "-P", "show", "qos", f"format={QOS_FIELDS}"]
    return [
        Qos(
            name=row["Name"],
            priority=int(row["Priority"] or 0),
            most=amounts(row["GrpTRES"]),
            preempts=tuple(sorted(filter(None, row["Preempt"].split(",")))),
            grace_seconds=(parse_duration_ms(row["GraceTime"]) or 0) // SECOND_MS,
        )
        for row in parse_table(commands.run(*argv))
    ]


def amounts(text: str) -> Amounts:
    """Limits as integers; memory in MiB."""
    return {
        name: round(parse_memory_mib(amount)) if name == "mem" else int(float(amount))
        for name, amount in parse_tres(text).items()
    }


def read_partitions(commands: CommandRunner) -> list[DesiredPartition]:
    """Every partition that is visible to us."""
    return [
        DesiredPartition(
            name=row["PartitionName"],
            nodes=expand_hosts(value_or_empty(row.get("Nodes"))),
            billing=parse_tres(value_or_empty(row.get("TRESBillingWeights"))),
            default_time_ms=_default_time_ms(row.get("DefaultTime", "")),
            is_default=row.get("Default") == "YES",
        )
        for row in parse_records(commands.run("scontrol", "-o", "show", "partition"))
        if "PartitionName" in row
    ]


def _default_time_ms(text: str) -> int | None:
    try:
        return parse_duration_ms(text)
    except BadSlurmText:
        return None
