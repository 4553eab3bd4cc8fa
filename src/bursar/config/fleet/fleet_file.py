"""A fleet in one YAML file or a folder of them: clusters, pools, tenants, policies.

Two walls. The reader refuses what is not written rightly. Then the core's own admission refuses what
could not work, and each of its problems is led back to the line that caused it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bursar.catalog.gpu_models import find_gpu_model
from bursar.config.fleet import fleet_keys
from bursar.config.fleet.pools import read_cluster, read_nodes, read_pool, read_short_pool
from bursar.config.fleet.tenants import read_tenants
from bursar.config.yaml.dataclass_reader import key_of, read_dataclass
from bursar.config.yaml.located_value import LocatedValue, compose
from bursar.core.admission.admit import check_fleet
from bursar.core.admission.fleet_rules import fleet_problems
from bursar.core.admission.problem import SHOWN, Problem
from bursar.core.admission.tenant_rules import policy_problems, tenant_problems
from bursar.core.admission.value_rules import value_problems
from bursar.model.errors import UserError
from bursar.model.fleet.fleet import Cluster, Fleet, Node, Pool
from bursar.model.tenants.governance import Governance
from bursar.model.tenants.policy import Policies
from bursar.model.tenants.tenant import Tenant

Places = dict[str, LocatedValue]
"""Which entry stands behind a field as admission names it: ``pools[2]``, ``tenants[0].parent``."""

SUFFIXES = (".yaml", ".yml")
PRIORITY_CLASSES = "priority_classes"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFile:
    """What a fleet file says."""

    fleet: Fleet
    tenants: tuple[Tenant, ...]
    policies: Policies


def read_fleet(path: Path) -> FleetFile:
    """Read a file, or all YAML files of a folder as if they were one."""
    try:
        files = sorted(one for one in path.iterdir() if one.suffix in SUFFIXES)
    except NotADirectoryError:
        files = [path]
    except OSError as error:
        raise _unreadable(path, error) from error
    if not files:
        fix = "Put fleet.yaml there, or name a file."
        raise UserError(f"{path} has no YAML file in it.", fix=fix, code="no-fleet-file")
    return parse_fleet({str(file): _text_of(file) for file in files})


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        fix = "Save it as UTF-8."
        raise UserError(f"{file} is not a text in UTF-8.", fix=fix, code="not-yaml") from error
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(path: Path, error: OSError) -> UserError:
    reason = error.strerror or str(error)
    fix = "Check the path and its permissions."
    return UserError(f"{path} cannot be read: {reason}.", fix=fix, code="no-fleet-file")


def parse_fleet(texts: Mapping[str, str]) -> FleetFile:
    """Read a fleet from the texts of one or more files, by file name."""
    sections = _sections(texts)
    places: Places = {}
    named = list(_named(sections.get("clusters", ()), "cluster"))
    clusters = tuple(_clusters(named, places))
    pools, nodes = _pools(named, sections.get("pools", ()), places)
    tenants = tuple(_tenants(sections.get("tenants", ()), places))
    read = FleetFile(
        fleet=Fleet(clusters=clusters, pools=pools, nodes=nodes),
        tenants=tenants,
        policies=_policies(sections, places),
    )
    _refuse_what_cannot_work(read, places, next(iter(texts), "fleet.yaml"))
    return read


# -- sections --------------------------------------------------------------------------------------


def _sections(texts: Mapping[str, str]) -> dict[str, list[LocatedValue]]:
    """The entries of each section, in order of file."""
    found: dict[str, list[LocatedValue]] = {}
    for file, text in texts.items():
        whole = compose(text, file)
        for key, entry in whole.fields(fleet_keys.FILE).items() if whole else ():
            found.setdefault(key, []).append(replace(entry, name=key))
    for key in ("policies", PRIORITY_CLASSES):
        if len(found.get(key, ())) > 1:
            first, second = found[key][:2]
            raise second.wrong(f"stands also at {first.place}", "Keep one.", "duplicate-key")
    return found


def _named(entries: Iterable[LocatedValue], what: str) -> Iterator[tuple[str, LocatedValue]]:
    """What is named in all files of a section; a name stands once."""
    seen: dict[str, LocatedValue] = {}
    for section in entries:
        for name, entry in section.named().items():
            if name in seen:
                raise UserError(
                    f"{entry.place}: the {what} {name!r} stands also at {seen[name].place}.",
                    fix="Give each a name of its own.",
                    code=f"duplicate-{what}",
                )
            seen[name] = entry
            yield name, replace(entry, name=f"the {what} {name!r}")


def _clusters(named: Iterable[tuple[str, LocatedValue]], places: Places) -> Iterator[Cluster]:
    for index, (name, entry) in enumerate(named):
        places[f"clusters[{index}]"] = entry
        yield read_cluster(name, entry)


def _pools(
    clusters: list[tuple[str, LocatedValue]], entries: Iterable[LocatedValue], places: Places
) -> tuple[tuple[Pool, ...], tuple[Node, ...]]:
    """The pools that are written, and before them those of clusters in the short form."""
    only_cluster = clusters[0][0] if len(clusters) == 1 else None
    short = [(name, entry, read_short_pool(name, entry)) for name, entry in clusters]
    written = [(name, entry, None) for name, entry in _named(entries, "pool")]
    pools: list[Pool] = []
    nodes: list[Node] = []
    for name, entry, made in [*(one for one in short if one[2]), *written]:
        _remember(places, f"pools[{len(pools)}]", entry)
        pools.append(made or read_pool(name, entry, only_cluster))
        for node, place in read_nodes(name, entry.named()["nodes"]):
            places[f"nodes[{len(nodes)}]"] = place
            nodes.append(node)
    return tuple(pools), tuple(nodes)


def _tenants(entries: Iterable[LocatedValue], places: Places) -> Iterator[Tenant]:
    for index, (tenant, entry) in enumerate(read_tenants(entries)):
        _remember(places, f"tenants[{index}]", entry)
        yield tenant


def _remember(places: Places, field: str, entry: LocatedValue) -> None:
    places[field] = entry
    places |= {f"{field}.{key}": one for key, one in entry.named().items()}


def _policies(sections: Mapping[str, list[LocatedValue]], places: Places) -> Policies:
    policies = Policies()
    if "policies" in sections:
        entry = sections["policies"][0]
        places |= entry.named()
        policies = read_dataclass(entry, Policies, leave_out=frozenset({PRIORITY_CLASSES}))
        policies = replace(policies, governance=_with_known_models(policies.governance, entry))
    if PRIORITY_CLASSES in sections:
        entry = sections[PRIORITY_CLASSES][0]
        places[PRIORITY_CLASSES] = entry
        classes = {name: one.whole() for name, one in entry.named().items()}
        policies = replace(policies, priority_classes=classes)
    return policies


def _with_known_models(rules: Governance, entry: LocatedValue) -> Governance:
    """Rules name GPU models as people do; from here on each has one name."""
    try:
        restricted = tuple(
            replace(rule, models=tuple(find_gpu_model(name).name for name in rule.models))
            for rule in rules.restricted_models
        )
    except UserError as error:
        where = entry.named()["governance"].named()["restricted_models"]
        raise where.wrong(f"names a model: {error.problem}", error.fix, error.code) from error
    return replace(rules, restricted_models=restricted)


# -- what could not work -----------------------------------------------------------------------------


def _refuse_what_cannot_work(read: FleetFile, places: Places, file: str) -> None:
    for wall in _walls(read):
        problems = list(wall)
        if problems:
            raise _as_error(problems, places, file)
    check_fleet(read.fleet, read.tenants, read.policies)


def _walls(read: FleetFile) -> Iterator[Iterator[Problem]]:
    """Problems of the same kinds and in the same order as ``check_fleet`` has them."""
    yield value_problems(read.fleet)
    yield fleet_problems(read.fleet)
    for index, tenant in enumerate(read.tenants):
        yield value_problems(tenant, f"tenants[{index}]")
    yield tenant_problems(read.tenants, {pool.flavor for pool in read.fleet.pools})
    yield value_problems(read.policies)
    yield policy_problems(read.policies)


def _as_error(problems: list[Problem], places: Places, file: str) -> UserError:
    told = [_located(problem, places, file) for problem in problems]
    if len(told) == 1:
        return UserError(told[0], fix=problems[0].fix, code=problems[0].code)
    lines = [f"\n- {text} {one.fix}" for text, one in zip(told, problems, strict=True)][:SHOWN]
    if len(told) > SHOWN:
        lines.append(f"\n- and {len(told) - SHOWN} more.")
    return UserError(
        f"{len(told)} things are wrong:{''.join(lines)}\n",
        fix="Put these right and try again.",
        code=problems[0].code,
    )


def _located(problem: Problem, places: Places, file: str) -> str:
    """The problem after the place of the narrowest field that was written for it."""
    field = problem.field
    while field and field not in places:
        field = field[: max(field.rfind("."), field.rfind("["), 0)]
    shown = key_of(problem.field.rpartition(".")[2]) if field else problem.field
    where = str(places[field].place) if field else file
    return f"{where}: {shown} {problem.text}."
