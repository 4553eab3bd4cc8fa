"""Imports the jobs that ``sacct`` lists as the events of a log.

Each run of a requeued job is an attempt. Slurm does not record which devices a job had, so each gets the
lowest free ones. An invalid row is reported and skipped.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from bursar.engines.slurm.commands.inventory import CommandRunner
from bursar.engines.slurm.governed.import_cluster import IN_PARTITION, JOBS, YES
from bursar.model.event import (
    AttemptAssigned,
    AttemptFailed,
    AttemptPreempted,
    AttemptStarted,
    AttemptSucceeded,
    Event,
    JobCancelled,
    JobSubmitted,
)
from bursar.model.fleet.fleet import Fleet, Pool
from bursar.model.jobs.attempt import Exit, Placement, Task
from bursar.model.jobs.job import Constraints, JobSpec, TaskGroup, WholeGpus
from bursar.model.tenants.policy import Policies
from bursar.model.tenants.tenant import Tenant
from bursar.model.units import HOUR_MS, MILLI
from bursar.slurm_text import (
    BadSlurmText,
    expand_hosts,
    parse_duration_ms,
    parse_memory_mib,
    parse_time_ms,
    parse_tres,
)

FIELDS = (
    *("JobID", "JobIDRaw", "User", "Account", "Partition", "QOS", "Submit", "Start", "End"),
    *("Elapsed", "State", "Timelimit", "NNodes", "NodeList", "AllocTRES", "ReqTRES", "ExitCode"),
    "JobName",
)
"""The job's name is last: it may contain the column separator."""
NO_ACCOUNT = "all"
"""Account of jobs on clusters without accounts, as in traces."""
SUCCEEDED = frozenset({"COMPLETED"})
CANCELLED = frozenset({"CANCELLED", "REVOKED"})
REQUEUED = frozenset({"PREEMPTED", "NODE_FAIL", "REQUEUED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRun:
    """An invalid row of sacct."""

    line: int
    job_id: str
    problem: str

    def __str__(self) -> str:
        return f"sacct:{self.line}: job {self.job_id}: {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmRun:
    """One run of a job; ``start_ms`` is None if it never started."""

    line: int
    job_id: str
    user: str
    account: str
    partition: str
    qos: str
    name: str
    submit_ms: int
    start_ms: int | None
    end_ms: int | None
    state: str
    limit_ms: int | None
    nodes: tuple[str, ...]
    node_count: int
    held: Mapping[str, str]
    exit_code: int
    exit_signal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmHistory:
    """Events in order of time, and the rows that were skipped."""

    events: tuple[Event, ...]
    owners: Mapping[str, str]
    """User by job."""
    bad: tuple[BadRun, ...]
    notes: tuple[str, ...]


def query_sacct(commands: CommandRunner, since: str, until: str) -> str:
    """All runs of all users' jobs in the period, with a line of headings."""
    period = ("-S", since, "-E", until)
    return commands.run("sacct", "-P", "-a", "-X", "-D", *period, "-o", ",".join(FIELDS))


def last_runs(text: str) -> str:
    """The output of sacct without earlier runs of requeued jobs, as the trace reader needs it."""
    lines = text.splitlines()
    by_job: dict[str, str] = {}
    for line in lines[1:]:
        by_job[line.split("|", 1)[0]] = line
    return "\n".join([*lines[:1], *by_job.values(), ""])


# -- rows --------------------------------------------------------------------------------------------


def read_runs(text: str) -> tuple[list[SlurmRun], list[BadRun]]:
    """Parse the rows."""
    runs, bad = [], []
    for number, line in enumerate(text.splitlines()[1:], start=2):
        values = line.split("|", len(FIELDS) - 1)
        row = dict(zip(FIELDS, values, strict=False))
        try:
            if len(values) < len(FIELDS):
                raise BadSlurmText(f"has {len(values)} of {len(FIELDS)} columns")
            runs.append(_run(number, row))
        except (BadSlurmText, ValueError) as problem:
            bad.append(BadRun(line=number, job_id=row.get("JobID", "")[:40], problem=str(problem)))
    return runs, bad


def _run(number: int, row: Mapping[str, str]) -> SlurmRun:
    submit_ms = parse_time_ms(row["Submit"])
    if submit_ms is None:
        raise BadSlurmText("it has no submission time")
    start_ms, end_ms = parse_time_ms(row["Start"]), parse_time_ms(row["End"])
    if start_ms is not None and end_ms is not None and end_ms < start_ms:
        raise BadSlurmText(f"it ended {(start_ms - end_ms) // 1_000} s before it started")
    code, _, signal = row["ExitCode"].partition(":")
    return SlurmRun(
        line=number,
        job_id=row["JobID"],
        user=row["User"],
        account=row["Account"] or NO_ACCOUNT,
        partition=row["Partition"],
        qos=row["QOS"],
        name=row["JobName"],
        submit_ms=submit_ms,
        start_ms=start_ms,
        end_ms=end_ms,
        state=row["State"].split(" ", 1)[0],
        limit_ms=parse_duration_ms(row["Timelimit"]),
        nodes=expand_hosts(row["NodeList"]),
        node_count=max(1, int(row["NNodes"] or 1)),
        held=parse_tres(row["AllocTRES"] or row["ReqTRES"]),
        exit_code=int(code or 0),
        exit_signal=int(signal or 0),
    )


# -- events ------------------------------------------------------------------------------------------


def history_of(
    text: str, fleet: Fleet, tenants: Iterable[Tenant], policies: Policies
) -> SlurmHistory:
    """Turn the output of sacct into events on an imported fleet."""
    runs, bad = read_runs(text)
    return _History(fleet, {one.name: one for one in tenants}, policies, bad).of(runs)


class _History:
    """Replays runs in order of time, tracking which devices are free."""

    def __init__(
        self, fleet: Fleet, tenants: Mapping[str, Tenant], policies: Policies, bad: list[BadRun]
    ) -> None:
        pools = {pool.name: pool for pool in fleet.pools}
        self._pool_of: dict[str, Pool] = {node.id: pools[node.pool] for node in fleet.nodes}
        self._free = {name: set(range(pool.gpus_per_node)) for name, pool in self._pool_of.items()}
        self._labels = {label for pool in fleet.pools for label in pool.labels}
        self._everywhere = {
            label for label in self._labels if all(label in pool.labels for pool in fleet.pools)
        }
        self._tenants = tenants
        self._classes = policies.priority_classes
        self._bad = bad
        self._busy: list[tuple[int, int, Placement]] = []
        self._counts: dict[str, int] = defaultdict(int)

    def of(self, runs: list[SlurmRun]) -> SlurmHistory:
        by_job: dict[str, list[SlurmRun]] = defaultdict(list)
        for run in runs:
            if "[" in run.job_id:
                self._counts["array tasks that had not started, skipped"] += 1
            elif run.account not in self._tenants:
                self._reject(run, f"its account {run.account!r} no longer exists")
            else:
                by_job[run.job_id].append(run)
        events: list[tuple[int, int, Event]] = []
        # Devices of runs that end at the same time are free again.
        started = sorted(
            (run for run in runs if run.start_ms is not None and run.job_id in by_job),
            key=lambda run: (run.start_ms or 0, run.line),
        )
        placements = {run.line: placed for run in started if (placed := self._place(run))}
        for job_id, job_runs in by_job.items():
            for event in self._job_events(job_id, job_runs, placements):
                events.append((event.at_ms, len(events), event))
        events.sort(key=lambda one: (one[0], _rank_at_same_time(one[2]), one[1]))
        notes = tuple(f"{count:,} {what}" for what, count in sorted(self._counts.items()))
        submitted = {one.job_id for _, _, one in events if isinstance(one, JobSubmitted)}
        owners = {job_id: by_job[job_id][0].user for job_id in sorted(submitted)}
        return SlurmHistory(
            events=tuple(event for _, _, event in events),
            owners=owners,
            bad=tuple(sorted(self._bad, key=lambda one: one.line)),
            notes=notes,
        )

    def _reject(self, run: SlurmRun, problem: str) -> None:
        self._bad.append(BadRun(line=run.line, job_id=run.job_id, problem=problem))

    # -- placements ----------------------------------------------------------------------------------

    def _place(self, run: SlurmRun) -> Placement | None:
        assert run.start_ms is not None
        while self._busy and self._busy[0][0] <= run.start_ms:
            _, _, placement = heapq.heappop(self._busy)
            for task in placement.tasks:
                self._free[task.node].update(task.gpus)
        unknown = [node for node in run.nodes if node not in self._pool_of]
        if unknown or not run.nodes:
            names = ", ".join(unknown[:3]) or "none named"
            self._reject(run, f"it ran on nodes that no longer exist: {names}")
            return None
        gpus = spread(_amount(run.held, "gres/gpu"), len(run.nodes))
        full = [
            node
            for node, count in zip(run.nodes, gpus, strict=True)
            if count > len(self._free[node])
        ]
        if full:
            self._reject(run, f"more GPUs were in use on {full[0]} than it has")
            return None
        placement = self._placement(run, gpus)
        if run.end_ms is not None:
            heapq.heappush(self._busy, (run.end_ms, run.line, placement))
        return placement

    def _placement(self, run: SlurmRun, gpus: list[int]) -> Placement:
        cpus = spread(_amount(run.held, "cpu"), len(run.nodes))
        memory = spread(_memory_mib(run), len(run.nodes))
        tasks = []
        for node, count, cpu, mib in zip(run.nodes, gpus, cpus, memory, strict=True):
            devices = tuple(sorted(self._free[node])[:count])
            self._free[node].difference_update(devices)
            tasks.append(
                Task(
                    group="main",
                    node=node,
                    count=1,
                    gpus=devices,
                    cpu_milli=cpu * MILLI,
                    memory_mib=mib,
                )
            )
        first = self._pool_of[run.nodes[0]]
        price = sum(_hourly(self._pool_of[task.node], task) for task in tasks)
        return Placement(
            pool=first.name, flavor=first.flavor, tasks=tuple(tasks), micro_usd_per_hour=price
        )

    # -- events --------------------------------------------------------------------------------------

    def _job_events(
        self, job_id: str, runs: list[SlurmRun], placements: Mapping[int, Placement]
    ) -> Iterator[Event]:
        runs = sorted(runs, key=lambda run: (run.start_ms or run.submit_ms, run.line))
        usable = [run for run in runs if run.start_ms is None or run.line in placements]
        if not usable:
            return
        first = min(run.submit_ms for run in runs)
        last = usable[-1]
        yield self._submitted(job_id, first, last)
        attempt = 0
        for run in usable:
            if run.start_ms is None:
                continue
            attempt += 1
            placement = placements[run.line]
            yield AttemptAssigned(
                at_ms=run.start_ms, job_id=job_id, attempt=attempt, placement=placement
            )
            yield AttemptStarted(at_ms=run.start_ms, job_id=job_id, attempt=attempt)
            if run.end_ms is not None:
                yield from _ends(run, attempt, is_last=run is last)
        if last.start_ms is None and last.state in CANCELLED and last.end_ms is not None:
            yield JobCancelled(at_ms=max(first + 1, last.end_ms), job_id=job_id)

    def _submitted(self, job_id: str, submit_ms: int, run: SlurmRun) -> JobSubmitted:
        nodes = len(run.nodes) or run.node_count
        gpus = _amount(run.held, "gres/gpu")
        even = nodes if gpus % nodes == 0 else 1
        if even != nodes:
            self._counts["jobs with an uneven number of GPUs per node: imported as one task"] += 1
        kinds = self._models(run)
        group = TaskGroup(
            count=even,
            gpu=WholeGpus(count=gpus // even, models=kinds) if gpus else None,
            cpu_milli=_amount(run.held, "cpu") * MILLI // even,
            memory_mib=_memory_mib(run) // even,
        )
        queue = run.account if self._tenants[run.account].is_queue else f"{run.account}{JOBS}"
        spec = JobSpec(
            name=run.name or job_id,
            queue=queue,
            groups=(group,),
            priority_class=run.qos if run.qos in self._classes else "normal",
            expected_run_ms=run.limit_ms,
            max_run_ms=run.limit_ms,
            constraints=self._constraints(run),
            similarity_keys=tuple(filter(None, (run.account, run.user, run.name))),
        )
        priority = self._classes.get(run.qos, 0)
        return JobSubmitted(at_ms=submit_ms, job_id=job_id, spec=spec, priority=priority)

    def _models(self, run: SlurmRun) -> tuple[str, ...]:
        """The model that the job ran on, if there is only one. Slurm does not always record the request."""
        models = {self._pool_of[node].gpu_model for node in run.nodes if node in self._pool_of}
        names = {model.name for model in models if model is not None}
        return tuple(sorted(names)) if len(names) == 1 else ()

    def _constraints(self, run: SlurmRun) -> Constraints:
        label = f"{IN_PARTITION}{run.partition}"
        if label in self._labels and label not in self._everywhere:
            return Constraints(node_labels=((label, YES),))
        return Constraints()


def _rank_at_same_time(event: Event) -> int:
    """Order of events in the same second: ends, submissions, starts."""
    if isinstance(event, JobSubmitted):
        return 1
    return 2 if isinstance(event, AttemptAssigned | AttemptStarted) else 0


def _ends(run: SlurmRun, attempt: int, *, is_last: bool) -> Iterator[Event]:
    assert run.end_ms is not None and run.start_ms is not None
    end_ms, job_id = max(run.end_ms, run.start_ms + 1), run.job_id
    if run.state in SUCCEEDED:
        yield AttemptSucceeded(at_ms=end_ms, job_id=job_id, attempt=attempt)
    elif not is_last or run.state in REQUEUED:
        yield AttemptPreempted(at_ms=end_ms, job_id=job_id, attempt=attempt)
    elif run.state in CANCELLED:
        yield JobCancelled(at_ms=end_ms, job_id=job_id)
        yield AttemptPreempted(at_ms=end_ms, job_id=job_id, attempt=attempt)
    else:
        ended = Exit(
            code=run.exit_code if not run.exit_signal else None,
            signal=run.exit_signal or None,
            detail=run.state,
        )
        yield AttemptFailed(at_ms=end_ms, job_id=job_id, attempt=attempt, exit=ended)


def spread(total: int, parts: int) -> list[int]:
    """Split a total as evenly as possible into integers."""
    each, rest = divmod(total, max(1, parts))
    return [each + (index < rest) for index in range(parts)]


def _amount(held: Mapping[str, str], name: str) -> int:
    return int(float(held.get(name, "0")))


def _memory_mib(run: SlurmRun) -> int:
    return round(parse_memory_mib(run.held.get("mem", "0")))


def _hourly(pool: Pool, task: Task) -> int:
    """Hourly price of a task: its largest share of the node, as in the ledger."""
    shares = [task.cpu_milli * HOUR_MS // pool.cpu_milli if pool.cpu_milli else 0]
    shares.append(task.memory_mib * HOUR_MS // pool.memory_mib if pool.memory_mib else 0)
    shares.append(len(task.gpus) * HOUR_MS // pool.gpus_per_node if pool.gpus_per_node else 0)
    return pool.node_micro_usd_per_hour * min(HOUR_MS, max(shares)) // HOUR_MS
