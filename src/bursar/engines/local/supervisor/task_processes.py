"""Starts, watches and kills the processes of an attempt."""

from __future__ import annotations

import os
import resource
import select
import signal
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

from bursar.engines.local.supervisor import proc
from bursar.engines.local.supervisor.attempt_plan import CannotStart, Outcome
from bursar.engines.local.supervisor.log_files import LogWriter, Pump
from bursar.engines.local.supervisor.resource_limits import ControlGroup, MemoryWatch

TICK_SECONDS = 0.5
TICK_CPU_FRACTION = 0.01
"""Ticks use at most this fraction of a CPU: where reading processes is slow, they are less frequent."""
KILL_AGAIN_SECONDS = 0.05
OUT_OF_MEMORY_SCORE = "500"
"""If the machine runs out of memory, the kernel kills tasks before the control plane."""


class TaskCommand(NamedTuple):
    """One process to start."""

    label: str
    argv: tuple[str, ...]
    env: dict[str, str]
    folder: str
    out: LogWriter
    err: LogWriter
    node_rank: int


class StopTerms(NamedTuple):
    """How processes are stopped, and their limits."""

    stop_signal: int
    grace_ms: int
    memory: MemoryWatch
    groups: dict[int, ControlGroup]
    on_tick: Callable[[], None]
    stop_order_ms: Callable[[], int | None]
    """The grace period of a stop order, if there is one."""


class TaskProcesses:
    """Starts all processes or none, watches them, and leaves none running.

    The attempt process is a subreaper: orphans become its children, so having no child means that no
    process of the attempt runs.
    """

    def __init__(self, terms: StopTerms) -> None:
        self._terms = terms
        self._running: dict[int, TaskCommand] = {}
        self.node_of_session: dict[int, int] = {}
        self._pumps: dict[int, Pump] = {}
        self._poll = select.poll()
        self._signal_fd = _signal_pipe()
        self._poll.register(self._signal_fd, select.POLLIN)
        self._launched = 0
        self._has_no_children = True
        self._kill_at: float | None = None
        self._next_tick = time.monotonic() + TICK_SECONDS
        self._was_killed = False
        self.failure: Outcome | None = None
        self.stop_grace_ms: int | None = None

    # -- start -------------------------------------------------------------------------------------

    def launch(self, commands: Sequence[TaskCommand], ready: Callable[[list[int]], None]) -> None:
        """Start all or none. ``ready`` receives the process ids before any user code runs."""
        for command in commands:
            if not os.access(command.argv[0], os.X_OK):
                raise CannotStart(f"{command.argv[0]!r} is not an executable on this machine")
        self._launched = len(commands)
        gate, opener = os.pipe()
        error_read, error_write = os.pipe()
        pids: list[int] = []
        try:
            for command in commands:
                pids.append(self._fork(command, gate, opener, error_write))
        except OSError as problem:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            raise CannotStart(
                f"the machine could not start a process: {problem.strerror}"
            ) from None
        finally:
            os.close(gate)
            os.close(error_write)
        ready(pids)
        os.write(opener, b"g" * len(pids))
        os.close(opener)
        problem_text = _read_all(error_read)
        if problem_text:
            self.fail(Outcome(code=127, detail=problem_text), 0)

    def _fork(self, command: TaskCommand, gate: int, opener: int, error_write: int) -> int:
        pumps = (Pump(command.out), Pump(command.err))
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            os.close(opener)
            self._exec(command, (pumps[0].sink, pumps[1].sink), gate, (error_write, parent))
        for pump in pumps:
            # The task has its own copy; the end of the stream is seen only without ours.
            os.close(pump.sink)
            self._pumps[pump.source] = pump
            self._poll.register(pump.source, select.POLLIN)
        self._running[pid] = command
        self.node_of_session[pid] = command.node_rank
        self._has_no_children = False
        return pid

    def _exec(
        self, command: TaskCommand, sinks: tuple[int, int], gate: int, parent: tuple[int, int]
    ) -> NoReturn:
        """In the child: wait for the gate, then execute the user's program."""
        error_write, parent_pid = parent
        try:
            os.setsid()
            proc.die_with_parent()
            if os.getppid() != parent_pid:
                os._exit(127)
            group = self._terms.groups.get(command.node_rank)
            if group is not None:
                group.enter()
            _reset_process()
            null = os.open(os.devnull, os.O_RDONLY)
            for fd, target in ((null, 0), (sinks[0], 1), (sinks[1], 2)):
                os.dup2(fd, target)
            os.chdir(command.folder)
            if os.read(gate, 1) == b"g":
                os.execve(command.argv[0], command.argv, command.env)
        except OSError as problem:
            message = f"{command.argv[0]} did not start: {problem.strerror}. "
            os.write(error_write, message.encode())
        finally:
            os._exit(127)

    # -- watch -------------------------------------------------------------------------------------

    def wait(self) -> None:
        """Wait for the launched processes; if they are being stopped, also for their descendants."""
        while self._running or (self._kill_at is not None and not self._has_no_children):
            self._run_once()

    def wait_for_all(self) -> None:
        """Wait until no process runs. Descendants that outlive the tasks are killed at once."""
        self.wait()
        self._kill_at = time.monotonic()
        while not self._has_no_children:
            self._run_once()
        for pump in self._pumps.values():
            pump.close()
        self._pumps.clear()

    def is_stop_requested(self) -> bool:
        """Check for a stop order, and begin to stop if there is one."""
        grace_ms = self._terms.stop_order_ms()
        if grace_ms is not None and grace_ms != self.stop_grace_ms:
            self.stop_grace_ms = grace_ms
            self._stop_within(grace_ms)
        return self.stop_grace_ms is not None

    def _run_once(self) -> None:
        now = time.monotonic()
        until = self._next_tick if self._kill_at is None else min(self._next_tick, self._kill_at)
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_all()
            until = now + KILL_AGAIN_SECONDS
        for fd, _ in self._poll.poll(max(0.0, until - now) * 1_000):
            if fd == self._signal_fd:
                _drain(fd)
                self.is_stop_requested()
            elif not self._pumps[fd].move():
                self._poll.unregister(fd)
                self._pumps.pop(fd).close()
        self._reap()
        if time.monotonic() >= self._next_tick:
            began = time.thread_time()
            self._tick()
            spent = time.thread_time() - began
            self._next_tick = time.monotonic() + max(TICK_SECONDS, spent / TICK_CPU_FRACTION)

    def _tick(self) -> None:
        self._terms.on_tick()
        if self._terms.memory.is_needed and self._running:
            problem = self._terms.memory.excess(self.node_of_session)
            if problem:
                self.fail(Outcome(signal=signal.SIGKILL, detail=problem), 0)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._has_no_children = True
                return
            if pid == 0:
                return
            command = self._running.pop(pid, None)
            if command is not None:
                self._handle_exit(command, os.waitstatus_to_exitcode(status))

    def _handle_exit(self, command: TaskCommand, code: int) -> None:
        if code == 0 or self.failure is not None:
            return
        is_obvious = self._launched == 1 or self.stop_grace_ms is not None
        where = "" if is_obvious else f"{command.label} failed first"
        outcome = Outcome(code=code) if code > 0 else Outcome(signal=-code)
        group = self._terms.groups.get(command.node_rank)
        detail = (group.excess() if group is not None else "") or where
        self.fail(outcome._replace(detail=detail), self._terms.grace_ms)

    # -- end ---------------------------------------------------------------------------------------

    def fail(self, outcome: Outcome, grace_ms: int) -> None:
        """Record the first failure as the attempt's outcome, and stop the other processes."""
        if self.failure is None:
            self.failure = outcome
        if self._running or grace_ms == 0:
            self._stop_within(grace_ms)

    def _stop_within(self, grace_ms: int) -> None:
        """Send the stop signal once; a later call can only shorten the grace period."""
        kill_at = time.monotonic() + grace_ms / 1_000
        if self._kill_at is None:
            self._kill_at = kill_at
            for pid in self._running:
                _signal_group(pid, self._terms.stop_signal)
                _signal_group(pid, signal.SIGCONT)
        self._kill_at = min(self._kill_at, kill_at)

    def _kill_all(self) -> None:
        for group in self._terms.groups.values():
            group.kill()
        if proc.kill(proc.descendants(os.getpid())):
            self._was_killed = True

    def outcome(self) -> Outcome:
        """Outcome of the attempt, once all processes have ended."""
        outcome = self.failure or Outcome(code=0)
        if self.stop_grace_ms is None:
            return outcome
        grace = f"{self.stop_grace_ms / 1_000:g} s"
        how = f"killed after a grace of {grace}" if self._was_killed else f"ended within {grace}"
        cause = f"; {outcome.detail}" if outcome.detail else ""
        return outcome._replace(detail=f"stopped as ordered, {how}{cause}")


def _reset_process() -> None:
    """Reset what the attempt process has set and a user's program must not inherit."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o022)
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(fd, OUT_OF_MEMORY_SCORE.encode())
        os.close(fd)
    except OSError:
        return


def _signal_pipe() -> int:
    """A pipe that receives SIGCHLD and SIGTERM, so that one poll waits for everything."""
    read_fd, write_fd = os.pipe()
    os.set_blocking(read_fd, False)
    os.set_blocking(write_fd, False)
    signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: None)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return read_fd


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 512):
            pass
    except BlockingIOError:
        return


def _read_all(fd: int) -> str:
    """Read until every child has executed its program or ended."""
    received = b""
    while chunk := os.read(fd, 4096):
        received += chunk
    os.close(fd)
    return received.decode(errors="replace").strip()


def _signal_group(leader: int, number: int) -> None:
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        return
