"""The commands that turn a cluster's current setup into the desired one. Applying them is idempotent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bursar.engines.slurm.commands.inventory import CommandRunner
from bursar.engines.slurm.governed.conf import partition_line
from bursar.engines.slurm.governed.desired import (
    AccountMember,
    Amounts,
    DesiredPartition,
    Qos,
    SlurmAccount,
    SlurmSetup,
)
from bursar.engines.slurm.governed.present import CurrentSetup, read_current_setup
from bursar.model.errors import EngineFault
from bursar.slurm_text import parse_duration_ms, write_tres

NO_LIMIT = -1
SACCTMGR = ("sacctmgr", "-i", "-Q")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmChange:
    """One command and its purpose."""

    argv: tuple[str, ...]
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmDifference:
    """Commands to run, and lines that must be in slurm.conf."""

    changes: tuple[SlurmChange, ...]
    conf: tuple[str, ...]
    unknown_accounts: tuple[str, ...]
    """Accounts that are not in the fleet; they are not changed."""

    @property
    def is_empty(self) -> bool:
        return not self.changes and not self.conf


def difference(desired: SlurmSetup, current: CurrentSetup) -> SlurmDifference:
    """Compare the desired setup with the current one."""
    known = {one.name for one in desired.accounts}
    return SlurmDifference(
        changes=(
            *_qos_changes(desired, current),
            *_account_changes(desired, current),
            *_member_changes(desired, current),
        ),
        conf=(*_setting_lines(desired, current), *_partition_lines(desired, current)),
        unknown_accounts=tuple(sorted(set(current.accounts) - known - {"root"})),
    )


def commands_for(desired: SlurmSetup, cluster: str) -> tuple[SlurmChange, ...]:
    """All commands for an empty cluster."""
    return difference(desired, CurrentSetup(cluster=cluster)).changes


def apply(commands: CommandRunner, desired: SlurmSetup, todo: SlurmDifference) -> SlurmDifference:
    """Run the commands and compare again; returns the remaining difference, which has no commands."""
    for change in todo.changes:
        commands.run(*change.argv)
    remaining = difference(desired, read_current_setup(commands))
    if remaining.changes:
        raise EngineFault(
            f"Slurm accepted the commands but {len(remaining.changes)} differences remain, the first: "
            f"{remaining.changes[0].sentence}",
            retry_after_seconds=5.0,
        )
    return remaining


# -- QOS ---------------------------------------------------------------------------------------------


def _qos_changes(desired: SlurmSetup, current: CurrentSetup) -> Iterator[SlurmChange]:
    """Create every QOS first, then set what each may preempt: only an existing QOS can be named."""
    for one in desired.qos:
        existing = current.qos.get(one.name)
        fields = _qos_fields(one, existing or Qos(name=one.name))
        if existing is None:
            yield _change("add", "qos", (one.name,), fields, f"add QOS {one.name}")
        elif fields:
            yield _modify("qos", (one.name,), fields, f"QOS {one.name}")
    for one in desired.qos:
        existing = current.qos.get(one.name, Qos(name=one.name))
        if tuple(sorted(one.preempts)) != existing.preempts:
            fields = {"Preempt": ",".join(one.preempts)}
            yield _modify("qos", (one.name,), fields, f"QOS {one.name}")


def _qos_fields(one: Qos, existing: Qos) -> dict[str, str]:
    fields: dict[str, str] = {}
    if one.priority != existing.priority:
        fields["Priority"] = str(one.priority)
    if one.grace_seconds != existing.grace_seconds:
        fields["GraceTime"] = str(one.grace_seconds)
    _add_limits(fields, "GrpTRES", one.most, existing.most)
    return fields


# -- accounts ----------------------------------------------------------------------------------------


def _account_changes(desired: SlurmSetup, current: CurrentSetup) -> Iterator[SlurmChange]:
    cluster = f"Cluster={current.cluster}"
    for one in desired.accounts:
        existing = current.accounts.get(one.name)
        if existing is None:
            fields = {"Parent": one.parent} | _account_fields(
                one, SlurmAccount(name=one.name, shares=-1)
            )
            yield _change("add", "account", (one.name, cluster), fields, f"add account {one.name}")
            continue
        fields = {"Parent": one.parent} if one.parent != existing.parent else {}
        fields |= _account_fields(one, existing)
        if fields:
            yield _modify("account", (one.name, cluster), fields, f"account {one.name}")


def _account_fields(one: SlurmAccount, existing: SlurmAccount) -> dict[str, str]:
    fields: dict[str, str] = {}
    if one.shares != existing.shares:
        fields["Fairshare"] = str(one.shares)
    _add_limits(fields, "GrpTRES", one.most, existing.most)
    _add_limits(fields, "GrpTRESMins", one.most_minutes, existing.most_minutes)
    if one.qos and tuple(sorted(one.qos)) != existing.qos:
        fields["QOS"] = ",".join(one.qos)
    if one.default_qos and one.default_qos != existing.default_qos:
        fields["DefaultQOS"] = one.default_qos
    return fields


def _member_changes(desired: SlurmSetup, current: CurrentSetup) -> Iterator[SlurmChange]:
    for one in desired.members:
        if AccountMember(user=one.user, account=one.account) not in current.members:
            names = (one.user, f"Account={one.account}", f"Cluster={current.cluster}")
            yield _change("add", "user", names, {}, f"add user {one.user} to {one.account}")


def _add_limits(fields: dict[str, str], name: str, desired: Amounts, existing: Amounts) -> None:
    """Add limits that are new or changed, and -1 for those that are no longer desired."""
    changed = {key: desired[key] for key in desired if desired[key] != existing.get(key)}
    changed |= {key: NO_LIMIT for key in existing if key not in desired}
    if changed:
        fields[name] = write_tres(changed)


def _change(
    verb: str, kind: str, names: tuple[str, ...], fields: Mapping[str, str], sentence: str
) -> SlurmChange:
    values = ", ".join(f"{key} {value or 'none'}" for key, value in fields.items())
    return SlurmChange(
        argv=(*SACCTMGR, verb, kind, *names, *(f"{key}={value}" for key, value in fields.items())),
        sentence=f"{sentence}: {values}" if values else sentence,
    )


def _modify(
    kind: str, names: tuple[str, ...], fields: Mapping[str, str], sentence: str
) -> SlurmChange:
    name, *where = names
    target = ("where", f"name={name}", *where) if where else names
    return _change("modify", kind, (*target, "set"), fields, sentence)


# -- slurm.conf --------------------------------------------------------------------------------------


def _setting_lines(desired: SlurmSetup, current: CurrentSetup) -> Iterator[str]:
    existing = {key.lower(): value for key, value in current.settings.items()}
    for key, value in desired.settings.items():
        if not _same_setting(key, value, existing.get(key.lower(), "")):
            yield f"{key}={value}"


def _same_setting(key: str, desired: str, existing: str) -> bool:
    if key == "AccountingStorageTRES":
        return set(desired.split(",")) <= set(existing.split(","))
    if key in ("AccountingStorageEnforce", "PriorityFlags"):
        return _items(desired) <= _items(existing)
    if key in ("PriorityDecayHalfLife", "PreemptExemptTime"):
        return (parse_duration_ms(desired) or 0) == (parse_duration_ms(existing) or 0)
    return desired.lower() == existing.lower()


def _items(text: str) -> set[str]:
    return {item.strip().lower() for item in text.split(",")}


def _partition_lines(desired: SlurmSetup, current: CurrentSetup) -> Iterator[str]:
    for one in desired.partitions:
        existing = current.partitions.get(one.name)
        if existing is None or _comparable(one) != _comparable(existing):
            yield partition_line(one)


def _comparable(partition: DesiredPartition) -> Any:
    weights = {name.lower(): _number(value) for name, value in partition.billing.items()}
    nodes = tuple(sorted(partition.nodes))
    return nodes, weights, partition.default_time_ms, partition.is_default


def _number(text: str) -> float:
    """A billing weight without its unit: ``1.5G`` is 1.5 per GiB."""
    return round(float(text.rstrip("GMKgmk")), 3)
