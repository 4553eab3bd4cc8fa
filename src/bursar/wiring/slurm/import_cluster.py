"""An existing Slurm in one command: a fleet file, a trace and a log that can be run again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bursar.model.errors import UserError

if TYPE_CHECKING:
    from bursar.engines.slurm.governed.import_cluster import ImportedFleet, Known
    from bursar.engines.slurm.governed.import_history import SlurmHistory
    from bursar.model.event import Event
    from bursar.model.fleet.gpu import GpuModel

FLEET_FILE, TRACE_FILE, LOG_FILE, SACCT_FILE = (
    "fleet.yaml",
    "trace.csv",
    "history.jsonl",
    "sacct.txt",
)
SHOWN_BAD = 10
DAY_ONE = "1970-01-02"
HEADING = """\
# Imported from the Slurm cluster {cluster}. Prices are guesses (a node: $0.10 an hour, and for each GPU $1.50
# times its speed beside an A100): put your own in, everything about money follows from them.

"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSummary:
    """What was imported, and what was not."""

    folder: str
    cluster: str
    pools: int
    nodes: int
    gpus: int
    accounts: int
    jobs: int
    events: int
    bad_rows: tuple[str, ...]
    notes: tuple[str, ...]

    def lines(self) -> list[str]:
        told = [
            f"cluster     {self.cluster}: {self.nodes:,} nodes in {self.pools} pools, {self.gpus:,} GPUs",
            f"accounts    {self.accounts:,}",
            f"history     {self.jobs:,} jobs, {self.events:,} events",
            f"bad rows    {len(self.bad_rows):,}",
        ]
        told += [f"  {row}" for row in self.bad_rows[:SHOWN_BAD]]
        if len(self.bad_rows) > SHOWN_BAD:
            told.append(f"  and {len(self.bad_rows) - SHOWN_BAD:,} more")
        told += [f"note        {note}" for note in self.notes]
        return [*told, f"written     {', '.join(self._files())}"]

    def _files(self) -> list[str]:
        return [f"{self.folder}/{name}" for name in (FLEET_FILE, TRACE_FILE, LOG_FILE, SACCT_FILE)]

    def next_steps(self) -> list[str]:
        """What can be typed now."""
        fleet, trace, log, _ = self._files()
        return [
            f"bursar simulate {trace} --fleet {fleet} --start-delay 1",
            f"bursar whatif {log} --change policy.order=bursar",
        ]


def import_slurm(
    folder: str, since: str | None, until: str | None, gpus: Mapping[str, str]
) -> SlurmSummary:
    """Read everything, write the files, and say what came of it."""
    from bursar.engines.slurm.commands.inventory import inventory
    from bursar.engines.slurm.governed.import_cluster import import_fleet
    from bursar.engines.slurm.governed.import_history import (
        ask_sacct,
        history_of,
        last_runs,
        read_runs,
    )
    from bursar.engines.slurm.governed.present import read_present
    from bursar.wiring.slurm.governed import commands_here, refusals_are_users

    with refusals_are_users():
        commands = commands_here()
        in_utc = commands_here(TZ="UTC", SLURM_TIME_FORMAT="standard")
        present, found = read_present(commands), inventory(commands)
        text = ask_sacct(in_utc, since or DAY_ONE, until or "now")
    accounts = {run.account for run in read_runs(text)[0]}
    fleet = import_fleet(present, found, known(gpus), accounts)
    history = history_of(text, fleet.fleet, fleet.tenants, fleet.policies)
    notes = _write_all(Path(folder), present.cluster, fleet, history, last_runs(text))
    return SlurmSummary(
        folder=folder,
        cluster=present.cluster,
        pools=len(fleet.fleet.pools),
        nodes=len(fleet.fleet.nodes),
        gpus=sum(node.gpu_count for node in found.nodes),
        accounts=len(fleet.tenants),
        jobs=len(history.owners),
        events=len(history.events),
        bad_rows=tuple(str(one) for one in history.bad),
        notes=(*fleet.notes, *history.notes, *notes),
    )


def known(gpus: Mapping[str, str]) -> Known:
    """The catalog's models behind Slurm's types, and guessed prices."""
    from bursar.catalog.gpu_models import find_gpu_model
    from bursar.config.fleet.pools import A100_MICRO_USD, NODE_MICRO_USD
    from bursar.engines.slurm.governed.import_cluster import Known
    from bursar.model.units import MILLI

    said = {kind.lower(): model for kind, model in gpus.items()}

    def find(kind: str) -> GpuModel:
        return find_gpu_model(said.get(kind.lower() or "gpu", kind))

    def price(model: GpuModel | None, count: int) -> int:
        speed_milli = model.relative_speed_milli if model else 0
        return NODE_MICRO_USD + count * speed_milli * A100_MICRO_USD // MILLI

    for model in said.values():
        find_gpu_model(model)
    return Known(find_model=find, node_price=price)


def _write_all(
    folder: Path, cluster: str, fleet: ImportedFleet, history: SlurmHistory, sacct: str
) -> list[str]:
    """The four files; gives what the reader of traces had to say."""
    from bursar.config import FleetFile, parse_fleet
    from bursar.config.fleet.fleet_writer import write_fleet
    from bursar.simulate.traces import read_trace, write_trace
    from bursar.simulate.workload.event_log import RecordedRun, write_run
    from bursar.wiring.simulation import cannot_write

    made = FleetFile(fleet=fleet.fleet, tenants=fleet.tenants, policies=fleet.policies)
    text = HEADING.format(cluster=cluster) + write_fleet(made)
    parse_fleet({FLEET_FILE: text})
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FLEET_FILE).write_text(text, encoding="utf-8")
        (folder / SACCT_FILE).write_text(sacct, encoding="utf-8")
        with (folder / LOG_FILE).open("w", encoding="utf-8", newline="\n") as file:
            run = RecordedRun(
                fleet=fleet.fleet,
                tenants=fleet.tenants,
                policies=fleet.policies,
                events=_from_zero(history),
            )
            write_run(run, file)
    except OSError as error:
        raise cannot_write(str(folder), error) from error
    trace = read_trace(folder / SACCT_FILE, "sacct")
    if not trace.jobs:
        raise UserError(
            "this Slurm remembers no job that ever started in that time.",
            fix=f"Ask for a longer time with --since; {folder / FLEET_FILE} is written all the same.",
            code="no-history",
        )
    write_trace(trace, folder / TRACE_FILE)
    bad = [f"trace: {row}" for row in trace.bad_rows]
    return [*trace.notes, *bad[:SHOWN_BAD]]


def _from_zero(history: SlurmHistory) -> list[Event]:
    """A run's clock begins with its first event."""
    from dataclasses import replace

    first = history.events[0].at_ms if history.events else 0
    return [replace(event, at_ms=event.at_ms - first) for event in history.events]


def summary_json(summary: SlurmSummary) -> dict[str, object]:
    """The same for programs."""
    from bursar.codec import to_plain

    return dict(to_plain(summary))
