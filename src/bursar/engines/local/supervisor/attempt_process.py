"""The process of one attempt: prepares it, starts and watches its tasks, records their end.

The supervisor forks it. It outlives both the supervisor and the control plane; its tasks do not outlive it,
so no user process runs unobserved.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import time

from bursar.engines.local.supervisor import attempt_folder as names
from bursar.engines.local.supervisor import proc
from bursar.engines.local.supervisor.attempt_folder import AttemptFolder
from bursar.engines.local.supervisor.attempt_plan import AttemptPlan, CannotStart, Outcome, TaskPlan
from bursar.engines.local.supervisor.log_files import LogShare, LogWriter
from bursar.engines.local.supervisor.rendezvous_port import hold_port
from bursar.engines.local.supervisor.resource_limits import (
    ControlGroup,
    MemoryWatch,
    NodeLimit,
    limits_of,
)
from bursar.engines.local.supervisor.socket_messages import notify, open_folder
from bursar.engines.local.supervisor.task_processes import StopTerms, TaskCommand, TaskProcesses

RETRY_SECONDS = 1.0


def run_attempt(folder: AttemptFolder, plan: AttemptPlan, key: str) -> None:
    """Run an attempt to its end. Returns when the end is on disk."""
    os.setsid()
    proc.set_process_name("bursar-attempt")
    proc.adopt_orphans()
    process = AttemptProcess(folder, plan, key)
    try:
        process.run()
    except OSError as problem:
        process.abort(f"system error: {problem.strerror or problem}")


class AttemptProcess:
    """Runs one attempt: preparation, setup, tasks, end."""

    def __init__(self, folder: AttemptFolder, plan: AttemptPlan, key: str) -> None:
        self._folder = folder
        self._plan = plan
        self._key = key
        self._engine_fd = open_folder(names.engine_folder(folder.state))
        self._saved_at_ns = 0
        limits = limits_of(plan.tasks)
        self._groups = self._make_groups(limits) if plan.cgroup else {}
        watched = {
            rank: limit
            for rank, limit in limits.items()
            if rank not in self._groups or not self._groups[rank].bounds_memory
        }
        terms = StopTerms(
            stop_signal=plan.stop_signal,
            grace_ms=plan.grace_ms,
            memory=MemoryWatch(watched),
            groups=self._groups,
            on_tick=self._check_status_file,
            stop_order_ms=self._stop_order_ms,
        )
        self._processes = TaskProcesses(terms)
        share = LogShare(plan.log_bytes, plan.log_files)
        self._logs = {
            (task.rank, stream): LogWriter(folder.file(f"task-{task.rank}.{stream}"), share)
            for task in plan.tasks
            for stream in ("out", "err")
        }

    def run(self) -> None:
        """Prepare, set up, run, record the end."""
        self._record([])
        self._folder.reserve_end()
        outcome = self._outcome()
        self._end(outcome)

    def abort(self, problem: str) -> None:
        """Kill what runs after an unexpected error, and record the error."""
        self._processes.fail(Outcome(detail=problem), 0)
        self._processes.wait_for_all()
        self._end(self._processes.outcome())

    def _outcome(self) -> Outcome:
        if self._plan.refused:
            return Outcome(detail=self._plan.refused)
        try:
            self._prepare()
            if self._plan.setup and not self._plan.argv and not self._processes.is_stop_requested():
                self._set_up()
            if self._processes.failure is None and not self._processes.is_stop_requested():
                self._processes.launch(
                    [self._task(task) for task in self._plan.tasks], self._record
                )
                if self._processes.failure is None:
                    self._report_began()
        except CannotStart as problem:
            self._processes.fail(Outcome(detail=f"not started: {problem}"), 0)
        self._processes.wait_for_all()
        outcome = self._processes.outcome()
        if (
            self._folder.has(names.BEGAN)
            or self._processes.failure
            or not self._processes.is_stop_requested()
        ):
            return outcome
        return Outcome(detail="stopped as ordered, before its tasks were started")

    # -- before the tasks --------------------------------------------------------------------------

    def _make_groups(self, limits: dict[int, NodeLimit]) -> dict[int, ControlGroup]:
        """Control groups by node rank; none if they cannot be created, then memory is polled."""
        name = f"{self._folder.job_id}@{self._folder.attempt}"
        try:
            return {
                rank: ControlGroup(self._plan.cgroup, f"{name}-{rank}", limit)
                for rank, limit in sorted(limits.items())
            }
        except OSError:
            return {}

    def _prepare(self) -> None:
        """Create the working directory of each node and the scripts."""
        for name in ("run", "setup"):
            text: str = getattr(self._plan, name)
            if text and not self._plan.argv:
                self._write_script(name, text)
        for rank in sorted({task.node_rank for task in self._plan.tasks}):
            work = self._work(rank)
            os.makedirs(work, mode=0o700, exist_ok=True)
            os.makedirs(self._scratch(rank), mode=0o700, exist_ok=True)
            if self._plan.workdir or self._plan.mounts:
                self._unpack_into(work)
        self._port, self._port_held = hold_port(self._key)

    def _write_script(self, name: str, text: str) -> None:
        flags = os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_NOFOLLOW
        fd = os.open(self._folder.file(f"{name}.sh"), flags, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text if text.endswith("\n") else f"{text}\n")

    def _unpack_into(self, work: str) -> None:
        from bursar.engines.local.supervisor import archive

        bundles = os.path.join(self._folder.state, "bundles")
        limits = archive.UnpackLimits()
        workdir = [("", self._plan.workdir)] if self._plan.workdir else []
        try:
            for target, bundle in (*workdir, *self._plan.mounts):
                inner = archive.inner_path(target.removeprefix("~/"))
                folder = os.path.join(work, *inner)
                os.makedirs(folder, mode=0o700, exist_ok=True)
                source = os.path.join(bundles, bundle.replace("/", "_"))
                archive.unpack(source, folder, limits, self._processes.is_stop_requested)
        except (archive.BadArchive, OSError) as problem:
            raise CannotStart(f"its files could not be unpacked: {problem}") from None

    def _set_up(self) -> None:
        """Run setup once on each node, in parallel; its output precedes that of the node's first task."""
        first: dict[int, TaskPlan] = {}
        for task in self._plan.tasks:
            first.setdefault(task.node_rank, task)
        commands = [
            self._command(task, (self._plan.shell, self._folder.file("setup.sh")), "setup")
            for task in first.values()
        ]
        self._processes.launch(commands, self._record)
        self._processes.wait()
        failure = self._processes.failure
        if failure is not None and self._processes.stop_grace_ms is None:
            detail = failure.detail or "setup failed"
            self._processes.failure = failure._replace(
                detail=f"{detail}; its tasks were not started"
            )

    # -- the tasks ---------------------------------------------------------------------------------

    def _task(self, task: TaskPlan) -> TaskCommand:
        argv = self._plan.argv or (self._plan.shell, self._folder.file("run.sh"))
        if "/" not in argv[0]:
            program = shutil.which(argv[0], path=task.env.get("PATH"))
            if program is None:
                raise CannotStart(f"the program {argv[0]!r} is not on the PATH of the job")
            argv = (program, *argv[1:])
        return self._command(task, argv, f"task {task.rank}")

    def _command(self, task: TaskPlan, argv: tuple[str, ...], label: str) -> TaskCommand:
        work = self._work(task.node_rank)
        env = {
            "HOME": work,
            "TMPDIR": self._scratch(task.node_rank),
            "MASTER_PORT": str(self._port),
            "BURSAR_ATTEMPT_KEY": self._key,
            "BURSAR_SAVED_FILE": self._folder.file(names.SAVED),
            **task.env,
        }
        return TaskCommand(
            label=f"{label} on node {task.node}",
            argv=argv,
            env=env,
            folder=work,
            out=self._logs[task.rank, "out"],
            err=self._logs[task.rank, "err"],
            node_rank=task.node_rank,
        )

    def _work(self, node_rank: int) -> str:
        return self._folder.file(f"{names.WORK}/{node_rank}")

    def _scratch(self, node_rank: int) -> str:
        return self._folder.file(f"{names.SCRATCH}/{node_rank}")

    # -- records on disk ---------------------------------------------------------------------------

    def _record(self, pids: list[int]) -> None:
        """Write which processes to kill if this one is killed; done before any user code runs."""
        own = proc.read_process(os.getpid())
        task_pids = dict.fromkeys([*self._processes.node_of_session, *pids])
        tasks = [process for pid in task_pids if (process := proc.read_process(pid))]
        record = {
            "pid": os.getpid(),
            "start": own.start if own else 0,
            "boot": proc.boot_id(),
            "tasks": [[task.pid, task.start] for task in tasks],
        }
        self._folder.write(names.PROCESSES, record)

    def _report_began(self) -> None:
        at_ms = time.time_ns() // 1_000_000
        self._folder.write(names.BEGAN, {"at_ms": at_ms})
        notify(self._engine_fd, self._folder)

    def _stop_order_ms(self) -> int | None:
        record = self._folder.read(names.STOP)
        return None if record is None else int(record.get("grace_ms", 0))

    def _check_status_file(self) -> None:
        try:
            modified_at_ns = os.stat(self._folder.file(names.SAVED)).st_mtime_ns
        except OSError:
            return
        if modified_at_ns != self._saved_at_ns:
            self._saved_at_ns = modified_at_ns
            notify(self._engine_fd, self._folder)

    def _end(self, outcome: Outcome) -> None:
        """Write the end; retried until the disk accepts it."""
        for writer in self._logs.values():
            writer.close()
        for group in self._groups.values():
            group.remove()
        self._check_status_file()
        record = {"at_ms": time.time_ns() // 1_000_000, **outcome._asdict()}
        record["detail"] = outcome.detail[:500]
        while True:
            try:
                self._folder.write_end(record)
                break
            except OSError as problem:
                if problem.errno == errno.ENOENT:
                    return
                time.sleep(RETRY_SECONDS)
        notify(self._engine_fd, self._folder)
        remove_runtime_files(self._folder)


def remove_runtime_files(folder: AttemptFolder) -> None:
    """Remove files that only a running attempt needs. Its output and working directory stay."""
    shutil.rmtree(folder.file(names.SCRATCH), ignore_errors=True)
    for name in ("run.sh", "setup.sh", names.PROCESSES, names.STOP):
        try:
            os.unlink(folder.file(name))
        except OSError:
            continue


def wake_attempt_process(folder: AttemptFolder) -> bool:
    """Signal the attempt process to check for a stop; False if it does not run."""
    record = folder.read(names.PROCESSES)
    if not record or record.get("boot") != proc.boot_id():
        return False
    try:
        handle = os.pidfd_open(record["pid"])
    except (OSError, KeyError):
        return False
    try:
        # Opening the handle first pins the process, so that its start time can be compared safely.
        if not proc.is_alive(record["pid"], record["start"]):
            return False
        signal.pidfd_send_signal(handle, signal.SIGTERM)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True
