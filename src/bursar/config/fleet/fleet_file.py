"""A fleet in one YAML file or a folder of them: clusters, pools, tenants, policies.

The reader rejects what is written wrongly. Then the core's admission rejects what could not work,
and each of its problems is reported with the line that caused it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Any

from bursar.config.fleet.policies import POLICIES, PRIORITY_CLASSES
from bursar.config.fleet.pools import (
    CLUSTER,
    CLUSTERS,
    POOLS,
    NodePattern,
    nodes_of,
    short_pool,
)
from bursar.config.fleet.tenants import TENANT, TENANTS, flatten, without_parent_queues
from bursar.config.yaml.dataclass_tables import key_of
from bursar.config.yaml.key_tables import (
    DIALECT,
    INTEGER,
    FileKey,
    KeyTable,
    by_field,
    by_name,
    described,
    read_mapping_or_null,
)
from bursar.config.yaml.value_readers import InvalidValue, subject_of
from bursar.config.yaml.yaml_text import Path, YamlDocument, decode, read_yaml
from bursar.core.admission.admit import fleet_steps
from bursar.core.admission.problem import Problem, raise_problems
from bursar.model.errors import UserError
from bursar.model.fleet.fleet import Cluster, Fleet, Node, Pool
from bursar.model.tenants.policy import Policies
from bursar.model.tenants.tenant import Tenant

SUFFIXES = (".yaml", ".yml")
SINGULAR = {"clusters": "cluster", "pools": "pool", "tenants": "tenant"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFile:
    """What a fleet file describes."""

    fleet: Fleet
    tenants: tuple[Tenant, ...]
    policies: Policies


# -- the keys at the top -----------------------------------------------------------------------------

FILE = KeyTable(
    name="the file",
    keys={
        "clusters": FileKey("the clusters, by name", CLUSTERS),
        "pools": FileKey("the pools, by name", POOLS),
        "tenants": FileKey("the tenants, by name, nested or flat", TENANTS),
        PRIORITY_CLASSES: FileKey(
            "priorities by class name; higher numbers run first", by_name(INTEGER)
        ),
        "policies": FileKey(
            "scheduling policies: order, placement, backfill, preemption, spot, governance",
            POLICIES,
        ),
    },
)


def fleet_schema() -> dict[str, Any]:
    """The JSON Schema of one file; a folder of files is read as one."""
    return {
        "$schema": DIALECT,
        "title": "Bursar fleet",
        "description": "The machines, the tenants that share them, and the rules.",
        **described(FILE),
        "$defs": {"tenant": described(TENANT)},
    }


# -- reading -----------------------------------------------------------------------------------------


def read_fleet(path: FilePath) -> FleetFile:
    """Read a file, or all YAML files of a folder as if they were one."""
    try:
        files = sorted(one for one in path.iterdir() if one.suffix in SUFFIXES)
    except NotADirectoryError:
        files = [path]
    except OSError as error:
        raise _unreadable(path, error) from error
    if not files:
        fix = "Put fleet.yaml there, or name a file."
        raise UserError(f"{path} contains no YAML file.", fix=fix, code="no-fleet-file")
    return parse_fleet({str(file): _text_of(file) for file in files})


def _text_of(file: FilePath) -> str:
    try:
        return decode(file.read_bytes(), str(file))
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(path: FilePath, error: OSError) -> UserError:
    reason = error.strerror or str(error)
    fix = "Check the path and its permissions."
    return UserError(f"{path} cannot be read: {reason}.", fix=fix, code="no-fleet-file")


def parse_fleet(texts: Mapping[str, str]) -> FleetFile:
    """Read a fleet from the texts of one or more files, by file name."""
    builder = _Builder()
    documents = []
    for file, text in texts.items():
        document = read_yaml(text, file)
        with _located(document):
            documents.append((document, read_mapping_or_null(document.value, FILE)))
    for document, sections in documents:
        builder.add_clusters(document, sections.get("clusters", {}))
    for document, sections in documents:
        with _located(document):
            builder.add_pools(document, sections.get("pools", {}))
            builder.add_tenants(document, sections.get("tenants", {}))
        builder.add_policies(document, sections)
    read = builder.build()
    _reject_what_cannot_work(read, builder, next(iter(texts), "fleet.yaml"))
    return read


@contextmanager
def _located(document: YamlDocument) -> Iterator[None]:
    """Report an invalid value with its location in this document."""
    try:
        yield
    except InvalidValue as error:
        location = document.location(error.path, at_key=error.at_key)
        raise error.as_user_error(location, _subject(error.path)) from None


def _subject(path: Path) -> str:
    """``'cpus' of the pool 'a100'``: the closest cluster, pool or tenant by its name."""
    if not path:
        return "the file"
    start = 1
    name = str(path[0])
    if len(path) > 1 and name in SINGULAR:
        start = 2
        while name == "tenants" and path[start : start + 1] == ("children",) and path[start + 1 :]:
            start += 2
        name = f"the {SINGULAR[name]} {path[start - 1]!r}"
    inner = subject_of(path[start:], "")
    return f"{inner} of {name}" if inner else name


@dataclass(frozen=True, slots=True)
class _Builder:
    """Collects what all files describe, and the location of each part for later errors.

    Locations are by field as admission names it: ``pools[2]``, ``tenants[0].parent``.
    """

    locations: dict[str, tuple[YamlDocument, Path]] = field(default_factory=dict)
    names: dict[tuple[str, str], str] = field(default_factory=dict)
    clusters: list[Cluster] = field(default_factory=list)
    pools: list[Pool] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    tenants: list[Tenant] = field(default_factory=list)
    explicit_queues: set[str] = field(default_factory=set)
    policies: dict[str, Any] = field(default_factory=dict)

    def add_clusters(self, document: YamlDocument, clusters: Mapping[str, Any]) -> None:
        """Clusters, and the pools of those in the short form."""
        for name, values in clusters.items():
            path = ("clusters", name)
            self._claim("cluster", name, document.location(path))
            self.locations[f"clusters[{len(self.clusters)}]"] = (document, path)
            self.clusters.append(Cluster(name=name, **by_field(values, CLUSTER)))
            if "nodes" in values:
                nodes = NodePattern(count=values["nodes"])
                self._add_pool(document, path, short_pool(name, values), nodes)

    def add_pools(self, document: YamlDocument, pools: Mapping[str, Any]) -> None:
        for name, values in pools.items():
            path = ("pools", name)
            self._claim("pool", name, document.location(path))
            fields = {"name": name, **values}
            nodes = fields.pop("nodes")
            if "cluster" not in fields:
                if len(self.clusters) != 1:
                    fix = "Add 'cluster'."
                    raise InvalidValue("lacks 'cluster'", fix, "missing-key").inside(*path)
                fields["cluster"] = self.clusters[0].name
            self._add_pool(document, path, Pool(**fields), nodes)

    def _add_pool(self, document: YamlDocument, path: Path, pool: Pool, nodes: Any) -> None:
        self._locate(f"pools[{len(self.pools)}]", document, path)
        self.pools.append(pool)
        for node, below in nodes_of(pool.name, nodes):
            self.locations[f"nodes[{len(self.nodes)}]"] = (document, (*path, "nodes", *below))
            self.nodes.append(node)

    def add_tenants(self, document: YamlDocument, tenants: Mapping[str, Any]) -> None:
        for tenant, path, values in flatten(tenants):
            self._claim("tenant", tenant.name, document.location(path))
            self._locate(f"tenants[{len(self.tenants)}]", document, path)
            self.tenants.append(tenant)
            if "queue" in values:
                self.explicit_queues.add(tenant.name)

    def add_policies(self, document: YamlDocument, sections: Mapping[str, Any]) -> None:
        for key in ("policies", PRIORITY_CLASSES):
            if key in sections:
                location = document.location((key,))
                if key in self.policies:
                    first, path = self.locations[key]
                    raise UserError(
                        f"{location}: {key} is also at {first.location(path)}.",
                        fix="Keep one.",
                        code="duplicate-key",
                    )
                self.policies[key] = sections[key]
                self._locate(key, document, (key,))

    def build(self) -> FleetFile:
        policies = self.policies.get("policies", Policies())
        if PRIORITY_CLASSES in self.policies:
            policies = replace(policies, priority_classes=self.policies[PRIORITY_CLASSES])
        return FleetFile(
            fleet=Fleet(
                clusters=tuple(self.clusters), pools=tuple(self.pools), nodes=tuple(self.nodes)
            ),
            tenants=tuple(without_parent_queues(self.tenants, self.explicit_queues)),
            policies=policies,
        )

    def _claim(self, what: str, name: str, location: str) -> None:
        """Reject a name that another file or branch has used."""
        first = self.names.setdefault((what, name), location)
        if first != location:
            raise UserError(
                f"{location}: the {what} {name!r} is also at {first}.",
                fix=f"Give each {what} a name of its own.",
                code=f"duplicate-{what}",
            )

    def _locate(self, field: str, document: YamlDocument, path: Path) -> None:
        """Remember where a value and its keys are. Policies are named without a prefix."""
        self.locations[field] = (document, path)
        prefix = "" if field == "policies" else f"{field}."
        for key in document.keys_at(path):
            self.locations[f"{prefix}{key}"] = (document, (*path, key))


# -- what could not work -----------------------------------------------------------------------------


def _reject_what_cannot_work(read: FleetFile, builder: _Builder, file: str) -> None:
    for _, problems in fleet_steps(read.fleet, read.tenants, read.policies):
        raise_problems("", (_with_location(problem, builder, file) for problem in problems))


def _with_location(problem: Problem, builder: _Builder, file: str) -> Problem:
    """The problem at the location of the innermost written field that it is about."""
    field = problem.field
    while field and field not in builder.locations:
        field = field[: max(field.rfind("."), field.rfind("["), 0)]
    if not field:
        return replace(problem, field=f"{file}: {problem.field}")
    document, path = builder.locations[field]
    key = key_of(problem.field.rpartition(".")[2])
    return replace(problem, field=f"{document.location(path)}: {key}")
