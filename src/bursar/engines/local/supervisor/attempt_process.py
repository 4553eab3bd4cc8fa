"""One process for each attempt: prepares it, starts its tasks, watches them, and writes how they ended.

It is forked by the warden and outlives both the warden and the control plane. Its tasks do not outlive
it: nothing of a user runs that nobody watches.
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
from bursar.engines.local.supervisor.socket_messages import note, open_folder
from bursar.engines.local.supervisor.task_processes import StopTerms, TaskCommand, TaskProcesses

RETRY_SECONDS = 1.0


def keep(folder: AttemptFolder, plan: AttemptPlan, key: str) -> None:
    """The whole life of an attempt. Returns when its end is on disk."""
    os.setsid()
    proc.call_me("bursar-keeper")
    proc.adopt_orphans()
    keeper = AttemptProcess(folder, plan, key)
    try:
        keeper.run()
    except OSError as problem:
        keeper.give_up(f"the machine failed it: {problem.strerror or problem}")


class AttemptProcess:
    """Holds what an attempt needs from its preparation to its end."""

    def __init__(self, folder: AttemptFolder, plan: AttemptPlan, key: str) -> None:
        self._folder = folder
        self._plan = plan
        self._key = key
        self._notes = open_folder(names.engine_folder(folder.state))
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
            on_tick=self._look_for_checkpoint,
            stop_order_ms=self._stop_order_ms,
        )
        self._crew = TaskProcesses(terms)
        share = LogShare(plan.log_bytes, plan.log_files)
        self._logs = {
            (task.rank, stream): LogWriter(folder.file(f"task-{task.rank}.{stream}"), share)
            for task in plan.tasks
            for stream in ("out", "err")
        }

    def run(self) -> None:
        """Prepare, set up, run, record."""
        self._record([])
        self._folder.reserve_end()
        outcome = self._outcome()
        self._end(outcome)

    def give_up(self, problem: str) -> None:
        """Something we did not foresee: end what runs, and say so."""
        self._crew.fail(Outcome(detail=problem), 0)
        self._crew.wait_for_the_last()
        self._end(self._crew.outcome())

    def _outcome(self) -> Outcome:
        if self._plan.refused:
            return Outcome(detail=self._plan.refused)
        try:
            self._prepare()
            if self._plan.setup and not self._plan.argv and not self._crew.look_for_stop():
                self._set_up()
            if self._crew.failure is None and not self._crew.look_for_stop():
                self._crew.launch([self._task(task) for task in self._plan.tasks], self._record)
                if self._crew.failure is None:
                    self._tell_began()
        except CannotStart as problem:
            self._crew.fail(Outcome(detail=f"not started: {problem}"), 0)
        self._crew.wait_for_the_last()
        outcome = self._crew.outcome()
        if self._folder.has(names.BEGAN) or self._crew.failure or not self._crew.look_for_stop():
            return outcome
        return Outcome(detail="stopped as ordered, before its tasks were started")

    # -- before the tasks --------------------------------------------------------------------------

    def _make_groups(self, limits: dict[int, NodeLimit]) -> dict[int, ControlGroup]:
        """Where control groups were promised and cannot be made, memory is watched instead."""
        name = f"{self._folder.job_id}@{self._folder.attempt}"
        try:
            return {
                rank: ControlGroup(self._plan.cgroup, f"{name}-{rank}", limit)
                for rank, limit in sorted(limits.items())
            }
        except OSError:
            return {}

    def _prepare(self) -> None:
        """Working directories, one for each node, and the scripts."""
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
        laid = [("", self._plan.workdir)] if self._plan.workdir else []
        try:
            for target, bundle in (*laid, *self._plan.mounts):
                inner = archive.inner_path(target.removeprefix("~/"))
                place = os.path.join(work, *inner)
                os.makedirs(place, mode=0o700, exist_ok=True)
                source = os.path.join(bundles, bundle.replace("/", "_"))
                archive.unpack(source, place, limits, lambda: not self._crew.look_for_stop())
        except (archive.BadArchive, OSError) as problem:
            raise CannotStart(f"its files could not be laid out: {problem}") from None

    def _set_up(self) -> None:
        """Once on each node, all nodes at once; its output leads that of the node's first task."""
        first: dict[int, TaskPlan] = {}
        for task in self._plan.tasks:
            first.setdefault(task.node_rank, task)
        commands = [
            self._command(task, (self._plan.shell, self._folder.file("setup.sh")), "setup")
            for task in first.values()
        ]
        self._crew.launch(commands, self._record)
        self._crew.wait()
        failure = self._crew.failure
        if failure is not None and self._crew.stop_grace_ms is None:
            detail = failure.detail or "setup failed"
            self._crew.failure = failure._replace(detail=f"{detail}; its tasks were not started")

    # -- the tasks ---------------------------------------------------------------------------------

    def _task(self, task: TaskPlan) -> TaskCommand:
        argv = self._plan.argv or (self._plan.shell, self._folder.file("run.sh"))
        if "/" not in argv[0]:
            found = shutil.which(argv[0], path=task.env.get("PATH"))
            if found is None:
                raise CannotStart(f"no program is called {argv[0]!r} on the PATH of the job")
            argv = (found, *argv[1:])
        return self._command(task, argv, f"task {task.rank}")

    def _command(self, task: TaskPlan, argv: tuple[str, ...], what: str) -> TaskCommand:
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
            label=f"{what} on node {task.node}",
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

    # -- what is known outside ---------------------------------------------------------------------

    def _record(self, pids: list[int]) -> None:
        """Who to end if this process is killed; known before anything of the user runs."""
        own = proc.look(os.getpid())
        known = [*self._crew.node_of_session, *pids]
        tasks = [found for pid in dict.fromkeys(known) if (found := proc.look(pid))]
        record = {
            "pid": os.getpid(),
            "start": own.start if own else 0,
            "boot": proc.boot_id(),
            "tasks": [[task.pid, task.start] for task in tasks],
        }
        self._folder.write(names.KEEPER, record)

    def _tell_began(self) -> None:
        at_ms = time.time_ns() // 1_000_000
        self._folder.write(names.BEGAN, {"at_ms": at_ms})
        self._tell("began", at_ms)

    def _tell(self, what: str, at_ms: int) -> None:
        ref = {"job_id": self._folder.job_id, "attempt": self._folder.attempt}
        note(self._notes, {**ref, "what": what, "at_ms": at_ms})

    def _stop_order_ms(self) -> int | None:
        record = self._folder.read(names.STOP)
        return None if record is None else int(record.get("grace_ms", 0))

    def _look_for_checkpoint(self) -> None:
        try:
            touched_ns = os.stat(self._folder.file(names.SAVED)).st_mtime_ns
        except OSError:
            return
        if touched_ns != self._saved_at_ns:
            self._saved_at_ns = touched_ns
            self._tell("saved", touched_ns // 1_000_000)

    def _end(self, outcome: Outcome) -> None:
        """Write the end, however long the disk refuses; then nothing of it is left to do."""
        for writer in self._logs.values():
            writer.close()
        for group in self._groups.values():
            group.remove()
        self._look_for_checkpoint()
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
        self._tell("ended", record["at_ms"])
        clear_away(self._folder)


def clear_away(folder: AttemptFolder) -> None:
    """What only a running attempt needs. Its output and what it made stay until it is forgotten."""
    shutil.rmtree(folder.file(names.SCRATCH), ignore_errors=True)
    for name in ("run.sh", "setup.sh", names.KEEPER, names.STOP):
        try:
            os.unlink(folder.file(name))
        except OSError:
            continue


def signal_keeper(folder: AttemptFolder) -> bool:
    """Wake the keeper up; False when it does not live (any more)."""
    record = folder.read(names.KEEPER)
    if not record or record.get("boot") != proc.boot_id():
        return False
    try:
        handle = os.pidfd_open(record["pid"])
    except (OSError, KeyError):
        return False
    try:
        # The handle is of whichever process has the id now; only then is its start time compared.
        if not proc.is_alive(record["pid"], record["start"]):
            return False
        signal.pidfd_send_signal(handle, signal.SIGTERM)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True
