"""What has to be done so that a cluster has what the fleet calls for: nothing more, and in an order that
works. Applied once, there is nothing left to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bursar.engines.slurm.commands.inventory import CommandRunner
from bursar.engines.slurm.commands.tables import duration_ms, write_tres
from bursar.engines.slurm.governed.conf import partition_line
from bursar.engines.slurm.governed.desired import (
    AccountMember,
    Amounts,
    DesiredPartition,
    Qos,
    SlurmAccount,
    SlurmSetup,
)
from bursar.engines.slurm.governed.present import CurrentSetup, read_present
from bursar.model.errors import EngineFault

NO_LIMIT = -1
SACCTMGR = ("sacctmgr", "-i", "-Q")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmChange:
    """One command and what it is for."""

    argv: tuple[str, ...]
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmDifference:
    """Commands to run, and what only the file slurm.conf can say."""

    changes: tuple[SlurmChange, ...]
    conf: tuple[str, ...]
    strangers: tuple[str, ...]
    """Accounts that the fleet does not know; they are left alone."""

    @property
    def is_empty(self) -> bool:
        return not self.changes and not self.conf


def difference(wanted: SlurmSetup, present: CurrentSetup) -> SlurmDifference:
    """What to do, and where slurm.conf says something else."""
    known = {one.name for one in wanted.accounts}
    return SlurmDifference(
        changes=(
            *_qos_changes(wanted, present),
            *_account_changes(wanted, present),
            *_member_changes(wanted, present),
        ),
        conf=(*_setting_lines(wanted, present), *_partition_lines(wanted, present)),
        strangers=tuple(sorted(set(present.accounts) - known - {"root"})),
    )


def commands_for(wanted: SlurmSetup, cluster: str) -> tuple[SlurmChange, ...]:
    """Every command for a cluster that has nothing yet."""
    nothing = CurrentSetup(
        cluster=cluster,
        version="",
        qos={},
        accounts={},
        members=frozenset(),
        partitions={},
        settings={},
    )
    return difference(wanted, nothing).changes


def apply(commands: CommandRunner, wanted: SlurmSetup, found: SlurmDifference) -> SlurmDifference:
    """Run the commands, read again, and give what is left: no commands, or Slurm did not do as told."""
    for change in found.changes:
        commands.run(*change.argv)
    left = difference(wanted, read_present(commands))
    if left.changes:
        raise EngineFault(
            f"Slurm took the commands but {len(left.changes)} differences remain, the first: "
            f"{left.changes[0].sentence}",
            retry_after_seconds=5.0,
        )
    return left


# -- QOS ---------------------------------------------------------------------------------------------


def _qos_changes(wanted: SlurmSetup, present: CurrentSetup) -> Iterator[SlurmChange]:
    """All of them first, then whom each may preempt: only a QOS that exists can be named."""
    for one in wanted.qos:
        there = present.qos.get(one.name)
        fields = _qos_fields(one, there or Qos(name=one.name))
        if there is None:
            yield _change("add", "qos", (one.name,), fields, f"add QOS {one.name}")
        elif fields:
            yield _modify("qos", (one.name,), fields, f"QOS {one.name}")
    for one in wanted.qos:
        there = present.qos.get(one.name, Qos(name=one.name))
        if tuple(sorted(one.preempts)) != there.preempts:
            fields = {"Preempt": ",".join(one.preempts)}
            yield _modify("qos", (one.name,), fields, f"QOS {one.name}")


def _qos_fields(one: Qos, there: Qos) -> dict[str, str]:
    fields: dict[str, str] = {}
    if one.priority != there.priority:
        fields["Priority"] = str(one.priority)
    if one.grace_seconds != there.grace_seconds:
        fields["GraceTime"] = str(one.grace_seconds)
    _add_limits(fields, "GrpTRES", one.most, there.most)
    return fields


# -- accounts ----------------------------------------------------------------------------------------


def _account_changes(wanted: SlurmSetup, present: CurrentSetup) -> Iterator[SlurmChange]:
    at = f"Cluster={present.cluster}"
    for one in wanted.accounts:
        there = present.accounts.get(one.name)
        if there is None:
            fields = {"Parent": one.parent} | _account_fields(
                one, SlurmAccount(name=one.name, shares=-1)
            )
            yield _change("add", "account", (one.name, at), fields, f"add account {one.name}")
            continue
        fields = {"Parent": one.parent} if one.parent != there.parent else {}
        fields |= _account_fields(one, there)
        if fields:
            yield _modify("account", (one.name, at), fields, f"account {one.name}")


def _account_fields(one: SlurmAccount, there: SlurmAccount) -> dict[str, str]:
    fields: dict[str, str] = {}
    if one.shares != there.shares:
        fields["Fairshare"] = str(one.shares)
    _add_limits(fields, "GrpTRES", one.most, there.most)
    _add_limits(fields, "GrpTRESMins", one.most_minutes, there.most_minutes)
    if one.qos and tuple(sorted(one.qos)) != there.qos:
        fields["QOS"] = ",".join(one.qos)
    if one.default_qos and one.default_qos != there.default_qos:
        fields["DefaultQOS"] = one.default_qos
    return fields


def _member_changes(wanted: SlurmSetup, present: CurrentSetup) -> Iterator[SlurmChange]:
    for one in wanted.members:
        if AccountMember(user=one.user, account=one.account) not in present.members:
            words = (one.user, f"Account={one.account}", f"Cluster={present.cluster}")
            yield _change("add", "user", words, {}, f"add user {one.user} to {one.account}")


def _add_limits(fields: dict[str, str], name: str, wanted: Amounts, there: Amounts) -> None:
    """Limits that are new or other, and -1 for those that are no longer wanted."""
    changed = {key: wanted[key] for key in wanted if wanted[key] != there.get(key)}
    changed |= {key: NO_LIMIT for key in there if key not in wanted}
    if changed:
        fields[name] = write_tres(changed)


def _change(
    verb: str, kind: str, words: tuple[str, ...], fields: Mapping[str, str], sentence: str
) -> SlurmChange:
    told = ", ".join(f"{key} {value or 'nobody'}" for key, value in fields.items())
    return SlurmChange(
        argv=(*SACCTMGR, verb, kind, *words, *(f"{key}={value}" for key, value in fields.items())),
        sentence=f"{sentence}: {told}" if told else sentence,
    )


def _modify(
    kind: str, words: tuple[str, ...], fields: Mapping[str, str], sentence: str
) -> SlurmChange:
    made = _change("modify", kind, (*words, "set"), fields, sentence)
    if len(words) == 1:
        return made
    name, *where = words
    told = (f"{key}={value}" for key, value in fields.items())
    argv = (*SACCTMGR, "modify", kind, "where", f"name={name}", *where, "set", *told)
    return SlurmChange(argv=argv, sentence=made.sentence)


# -- slurm.conf --------------------------------------------------------------------------------------


def _setting_lines(wanted: SlurmSetup, present: CurrentSetup) -> Iterator[str]:
    there = {key.lower(): value for key, value in present.settings.items()}
    for key, value in wanted.settings.items():
        if not _same_setting(key, value, there.get(key.lower(), "")):
            yield f"{key}={value}"


def _same_setting(key: str, wanted: str, there: str) -> bool:
    if key == "AccountingStorageTRES":
        return set(wanted.split(",")) <= set(there.split(","))
    if key in ("AccountingStorageEnforce", "PriorityFlags"):
        return _words(wanted) <= _words(there)
    if key in ("PriorityDecayHalfLife", "PreemptExemptTime"):
        return (duration_ms(wanted) or 0) == (duration_ms(there) or 0)
    return wanted.lower() == there.lower()


def _words(text: str) -> set[str]:
    return {word.strip().lower() for word in text.split(",")}


def _partition_lines(wanted: SlurmSetup, present: CurrentSetup) -> Iterator[str]:
    for one in wanted.partitions:
        there = present.partitions.get(one.name)
        if there is None or _comparable(one) != _comparable(there):
            yield partition_line(one)


def _comparable(partition: DesiredPartition) -> Any:
    weights = {name.lower(): _number(value) for name, value in partition.billing.items()}
    nodes = tuple(sorted(partition.nodes))
    return nodes, weights, partition.default_time_ms, partition.is_default


def _number(text: str) -> float:
    """``1.5G`` is 1.5 for each GiB; a bare weight of memory is for each MiB."""
    return round(float(text.rstrip("GMKgmk")), 3)
