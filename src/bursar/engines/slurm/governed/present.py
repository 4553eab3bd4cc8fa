"""What a cluster's Slurm has now, in the words of ``setup.py``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bursar.engines.slurm.commands.hostlist import expand
from bursar.engines.slurm.commands.inventory import CommandRunner
from bursar.engines.slurm.commands.tables import (
    UnexpectedOutput,
    duration_ms,
    memory_mib,
    records,
    said,
    table,
    tres,
)
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

ASSOC_FIELDS = "Account,ParentName,User,Partition,Share,GrpTRES,GrpTRESMins,QOS,DefaultQOS"
QOS_FIELDS = "Name,Priority,GraceTime,Preempt,GrpTRES"
PARENT_SHARES = "parent"


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentSetup:
    """By name, as they are."""

    cluster: str
    version: str
    qos: Mapping[str, Qos]
    accounts: Mapping[str, SlurmAccount]
    members: frozenset[AccountMember]
    partitions: Mapping[str, DesiredPartition]
    settings: Mapping[str, str]


def read_present(commands: CommandRunner) -> CurrentSetup:
    """Ask for all of it: five questions."""
    config = read_config(commands)
    if not config.get("AccountingStorageType", "").endswith("slurmdbd"):
        raise UserError(
            "this Slurm keeps no accounts: AccountingStorageType is "
            f"{config.get('AccountingStorageType') or 'not set'}.",
            fix="Run slurmdbd and set AccountingStorageType=accounting_storage/slurmdbd.",
            code="slurm-without-accounts",
        )
    cluster = config["ClusterName"]
    rows = read_associations(commands, cluster)
    return CurrentSetup(
        cluster=cluster,
        version=config.get("SLURM_VERSION", ""),
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
    found = {}
    for line in commands.run("scontrol", "show", "config").splitlines():
        key, mark, value = line.partition("=")
        if mark:
            found[key.strip()] = value.strip()
    if "ClusterName" not in found:
        raise EngineFault("scontrol says nothing of its cluster", retry_after_seconds=5.0)
    return found


def read_associations(commands: CommandRunner, cluster: str) -> list[dict[str, str]]:
    """Accounts and, with a user, their members."""
    asked = ["sacctmgr", "-P", "show", "assoc", "where", f"cluster={cluster}"]
    rows = table(commands.run(*asked, f"format={ASSOC_FIELDS}"))
    return [{_plain(key): value for key, value in row.items()} for row in rows]


def _plain(key: str) -> str:
    """Headings of sacctmgr are not always what the column was asked by."""
    return {"Par Name": "ParentName", "Def QOS": "DefaultQOS"}.get(key, key)


def accounts_of(rows: Iterable[Mapping[str, str]]) -> list[SlurmAccount]:
    """The accounts among associations, parents first."""
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
    """Every QOS, with what of it Bursar keeps."""
    asked = ["sacctmgr", "-P", "show", "qos", f"format={QOS_FIELDS}"]
    return [
        Qos(
            name=row["Name"],
            priority=int(row["Priority"] or 0),
            most=amounts(row["GrpTRES"]),
            preempts=tuple(sorted(filter(None, row["Preempt"].split(",")))),
            grace_seconds=(duration_ms(row["GraceTime"]) or 0) // SECOND_MS,
        )
        for row in table(commands.run(*asked))
    ]


def amounts(text: str) -> Amounts:
    """Limits as numbers; memory in MiB."""
    found = {}
    for name, amount in tres(text).items():
        found[name] = memory_mib(amount) if name == "mem" else int(float(amount))
    return found


def read_partitions(commands: CommandRunner) -> list[DesiredPartition]:
    """Every partition that is shown to us."""
    found = []
    for row in records(commands.run("scontrol", "-o", "show", "partition")):
        if "PartitionName" not in row:
            continue
        found.append(
            DesiredPartition(
                name=row["PartitionName"],
                nodes=expand(said(row.get("Nodes"))),
                billing=tres(said(row.get("TRESBillingWeights"))),
                default_time_ms=_time(row.get("DefaultTime", "")),
                is_default=row.get("Default") == "YES",
            )
        )
    return found


def _time(text: str) -> int | None:
    try:
        return duration_ms(text)
    except UnexpectedOutput:
        return None
