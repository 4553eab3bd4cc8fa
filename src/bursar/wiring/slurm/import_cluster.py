"""Imports an existing Slurm cluster: a fleet file, a trace and a log for what-if runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bursar.model.errors import UserError

if TYPE_CHECKING:
    from bursar.engines.slurm.governed.import_cluster import ImportedFleet, ModelsAndPrices
    from bursar.engines.slurm.governed.import_history import SlurmHistory
    from bursar.model.fleet.gpu import GpuModel

FLEET_FILE, TRACE_FILE, LOG_FILE, SACCT_FILE = (
    "fleet.yaml",
    "trace.csv",
    "history.jsonl",
    "sacct.txt",
)
SHOWN_BAD = 10
EARLIEST = "1970-01-02"
HEADING = """\
# Imported from the Slurm cluster {cluster}. Prices are guesses (a node: $0.10 an hour, and for each GPU $1.50
# times its speed relative to an A100): replace them by your own; all costs follow from them.

"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSummary:
    """What was imported, and which rows were not."""

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
        lines = [
            f"cluster     {self.cluster}: {self.nodes:,} nodes in {self.pools} pools, {self.gpus:,} GPUs",
            f"accounts    {self.accounts:,}",
            f"history     {self.jobs:,} jobs, {self.events:,} events",
            f"bad rows    {len(self.bad_rows):,}",
        ]
        lines += [f"  {row}" for row in self.bad_rows[:SHOWN_BAD]]
        if len(self.bad_rows) > SHOWN_BAD:
            lines.append(f"  and {len(self.bad_rows) - SHOWN_BAD:,} more")
        lines += [f"note        {note}" for note in self.notes]
        return [*lines, f"written     {', '.join(self._files())}"]

    def _files(self) -> list[str]:
        return [f"{self.folder}/{name}" for name in (FLEET_FILE, TRACE_FILE, LOG_FILE, SACCT_FILE)]

    def next_steps(self) -> list[str]:
        """Commands to run next."""
        fleet, trace, log, _ = self._files()
        return [
            f"bursar simulate {trace} --fleet {fleet} --start-delay 1",
            f"bursar whatif {log} --change policy.order=bursar",
        ]


def import_slurm(
    folder: str, since: str | None, until: str | None, gpus: Mapping[str, str]
) -> SlurmSummary:
    """Query the cluster, write the files, and return a summary."""
    from bursar.engines.slurm.commands.inventory import inventory
    from bursar.engines.slurm.governed.import_cluster import import_fleet
    from bursar.engines.slurm.governed.import_history import (
        history_of,
        last_runs,
        query_sacct,
        read_runs,
    )
    from bursar.engines.slurm.governed.present import read_current_setup
    from bursar.wiring.slurm.governed import local_commands, refusals_as_user_errors

    with refusals_as_user_errors():
        commands = local_commands()
        in_utc = local_commands(TZ="UTC", SLURM_TIME_FORMAT="standard")
        current, cluster = read_current_setup(commands), inventory(commands)
        text = query_sacct(in_utc, since or EARLIEST, until or "now")
    accounts = {run.account for run in read_runs(text)[0]}
    fleet = import_fleet(current, cluster, models_and_prices(gpus), accounts)
    history = history_of(text, fleet.fleet, fleet.tenants, fleet.policies)
    notes = _write_all(Path(folder), current.cluster, fleet, history, last_runs(text))
    return SlurmSummary(
        folder=folder,
        cluster=current.cluster,
        pools=len(fleet.fleet.pools),
        nodes=len(fleet.fleet.nodes),
        gpus=sum(node.gpu_count for node in cluster.nodes),
        accounts=len(fleet.tenants),
        jobs=len(history.owners),
        events=len(history.events),
        bad_rows=tuple(str(one) for one in history.bad),
        notes=(*fleet.notes, *history.notes, *notes),
    )


def models_and_prices(gpus: Mapping[str, str]) -> ModelsAndPrices:
    """The catalog's models of Slurm's GPU types, and guessed prices."""
    from bursar.catalog.gpu_models import find_gpu_model
    from bursar.config.fleet.pools import A100_MICRO_USD, NODE_MICRO_USD
    from bursar.engines.slurm.governed.import_cluster import ModelsAndPrices
    from bursar.model.units import MILLI

    models = {kind.lower(): model for kind, model in gpus.items()}

    def find(kind: str) -> GpuModel:
        return find_gpu_model(models.get(kind.lower() or "gpu", kind))

    def price(model: GpuModel | None, count: int) -> int:
        speed_milli = model.relative_speed_milli if model else 0
        return NODE_MICRO_USD + count * speed_milli * A100_MICRO_USD // MILLI

    for model in models.values():
        find_gpu_model(model)
    return ModelsAndPrices(find_model=find, node_price=price)


def _write_all(
    folder: Path, cluster: str, fleet: ImportedFleet, history: SlurmHistory, sacct: str
) -> list[str]:
    """Write the four files; returns the notes of the trace reader."""
    from bursar.config import FleetFile, parse_fleet
    from bursar.config.fleet.fleet_writer import write_fleet
    from bursar.simulate.traces import read_trace, write_trace
    from bursar.simulate.workload.event_log import RecordedRun, write_run
    from bursar.wiring.simulation import cannot_write

    began_ms = history.events[0].at_ms if history.events else 0
    fleet_file = FleetFile(fleet=fleet.fleet, tenants=fleet.tenants, policies=fleet.policies)
    text = HEADING.format(cluster=cluster) + write_fleet(fleet_file)
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
                events=[replace(one, at_ms=one.at_ms - began_ms) for one in history.events],
            )
            write_run(run, file)
    except OSError as error:
        raise cannot_write(str(folder), error) from error
    trace = read_trace(folder / SACCT_FILE, "sacct")
    if not trace.jobs:
        raise UserError(
            "sacct has no job that started in that time.",
            fix=f"Use an earlier --since; {folder / FLEET_FILE} has been written.",
            code="no-history",
        )
    write_trace(trace, folder / TRACE_FILE)
    bad = [f"trace: {row}" for row in trace.bad_rows]
    return [*trace.notes, *bad[:SHOWN_BAD]]


def summary_json(summary: SlurmSummary) -> dict[str, object]:
    """A summary as values for JSON."""
    from bursar.codec import to_plain

    return dict(to_plain(summary))
