"""The processes of an attempt, from the first one's start to the last one's end."""

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
TICK_COSTS_AT_MOST = 0.01
"""Of one processor: where looking at processes is slow, it is done less often."""
KILL_AGAIN_SECONDS = 0.05
OUT_OF_MEMORY_SCORE = "500"
"""When the whole machine runs out of memory, the kernel takes tasks before it takes the control plane."""


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
    """How the crew is told to end, and what bounds it."""

    stop_signal: int
    grace_ms: int
    memory: MemoryWatch
    groups: dict[int, ControlGroup]
    on_tick: Callable[[], None]
    stop_order_ms: Callable[[], int | None]
    """The grace of the order to stop, when there is one."""


class TaskProcesses:
    """Starts all or none, watches, and leaves nothing behind.

    Orphans of its processes become its children (the keeper adopts them), so "no child is left" means
    that nothing of the attempt runs, whatever it did to hide.
    """

    def __init__(self, terms: StopTerms) -> None:
        self._terms = terms
        self._members: dict[int, TaskCommand] = {}
        self.node_of_session: dict[int, int] = {}
        self._pumps: dict[int, Pump] = {}
        self._poll = select.poll()
        self._wake = _listen_to_signals()
        self._poll.register(self._wake, select.POLLIN)
        self._launched = 0
        self._childless = True
        self._kill_at: float | None = None
        self._next_tick = time.monotonic() + TICK_SECONDS
        self._was_killed = False
        self.failure: Outcome | None = None
        self.stop_grace_ms: int | None = None

    # -- start -------------------------------------------------------------------------------------

    def launch(self, commands: Sequence[TaskCommand], ready: Callable[[list[int]], None]) -> None:
        """Start all of them or none. ``ready`` learns their ids before any of them becomes the user's."""
        for command in commands:
            if not os.access(command.argv[0], os.X_OK):
                raise CannotStart(f"{command.argv[0]!r} is not a program on this machine")
        self._launched = len(commands)
        gate, opener = os.pipe()
        trouble, tell = os.pipe()
        pids: list[int] = []
        try:
            for command in commands:
                pids.append(self._fork(command, gate, opener, tell))
        except OSError as problem:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            raise CannotStart(
                f"the machine could not start a process: {problem.strerror}"
            ) from None
        finally:
            os.close(gate)
            os.close(tell)
        ready(pids)
        os.write(opener, b"g" * len(pids))
        os.close(opener)
        problem_text = _read_all(trouble)
        if problem_text:
            self.fail(Outcome(code=127, detail=problem_text), 0)

    def _fork(self, command: TaskCommand, gate: int, opener: int, tell: int) -> int:
        pumps = (Pump(command.out), Pump(command.err))
        keeper = os.getpid()
        pid = os.fork()
        if pid == 0:
            os.close(opener)
            self._become(command, (pumps[0].sink, pumps[1].sink), gate, (tell, keeper))
        for pump in pumps:
            pump.close_sink()
            self._pumps[pump.source] = pump
            self._poll.register(pump.source, select.POLLIN)
        self._members[pid] = command
        self.node_of_session[pid] = command.node_rank
        self._childless = False
        return pid

    def _become(
        self, command: TaskCommand, sinks: tuple[int, int], gate: int, told: tuple[int, int]
    ) -> NoReturn:
        """In the child: wait for the others, then become the user's program."""
        tell, keeper = told
        try:
            os.setsid()
            proc.die_with_parent()
            if os.getppid() != keeper:
                os._exit(127)
            group = self._terms.groups.get(command.node_rank)
            if group is not None:
                group.enter()
            _become_ordinary()
            null = os.open(os.devnull, os.O_RDONLY)
            for fd, wanted in ((null, 0), (sinks[0], 1), (sinks[1], 2)):
                os.dup2(fd, wanted)
            os.chdir(command.folder)
            if os.read(gate, 1) == b"g":
                os.execve(command.argv[0], command.argv, command.env)
        except OSError as problem:
            os.write(tell, f"{command.argv[0]} did not start: {problem.strerror}. ".encode())
        finally:
            os._exit(127)

    # -- watch -------------------------------------------------------------------------------------

    def wait(self) -> None:
        """Until every process that was launched has ended; when they are being ended, all it left too."""
        while self._members or (self._kill_at is not None and not self._childless):
            self._turn()

    def wait_for_the_last(self) -> None:
        """Until nothing runs. What outlives the tasks that started it is ended at once."""
        self.wait()
        self._kill_at = time.monotonic()
        while not self._childless:
            self._turn()
        for pump in self._pumps.values():
            pump.close()
        self._pumps.clear()

    def look_for_stop(self) -> bool:
        """Whether it was told to stop; asked also while nothing runs yet."""
        grace_ms = self._terms.stop_order_ms()
        if grace_ms is not None and grace_ms != self.stop_grace_ms:
            self.stop_grace_ms = grace_ms
            self._end_within(grace_ms)
        return self.stop_grace_ms is not None

    def _turn(self) -> None:
        now = time.monotonic()
        until = self._next_tick if self._kill_at is None else min(self._next_tick, self._kill_at)
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_all()
            until = now + KILL_AGAIN_SECONDS
        for fd, _ in self._poll.poll(max(0.0, until - now) * 1_000):
            if fd == self._wake:
                _drain(fd)
                self.look_for_stop()
            elif not self._pumps[fd].move():
                self._poll.unregister(fd)
                self._pumps.pop(fd).close()
        self._reap()
        if time.monotonic() >= self._next_tick:
            began = time.thread_time()
            self._tick()
            spent = time.thread_time() - began
            self._next_tick = time.monotonic() + max(TICK_SECONDS, spent / TICK_COSTS_AT_MOST)

    def _tick(self) -> None:
        self._terms.on_tick()
        if self._terms.memory.is_needed and self._members:
            problem = self._terms.memory.excess(self.node_of_session)
            if problem:
                self.fail(Outcome(signal=signal.SIGKILL, detail=problem), 0)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._childless = True
                return
            if pid == 0:
                return
            command = self._members.pop(pid, None)
            if command is not None:
                self._note_end(command, os.waitstatus_to_exitcode(status))

    def _note_end(self, command: TaskCommand, code: int) -> None:
        if code == 0 or self.failure is not None:
            return
        alone = self._launched == 1 or self.stop_grace_ms is not None
        where = "" if alone else f"{command.label} failed first"
        ended = Outcome(code=code) if code > 0 else Outcome(signal=-code)
        group = self._terms.groups.get(command.node_rank)
        detail = (group.excess() if group is not None else "") or where
        self.fail(ended._replace(detail=detail), self._terms.grace_ms)

    # -- end ---------------------------------------------------------------------------------------

    def fail(self, outcome: Outcome, grace_ms: int) -> None:
        """The first failure is the attempt's; the others are told to end."""
        if self.failure is None:
            self.failure = outcome
        if self._members or grace_ms == 0:
            self._end_within(grace_ms)

    def _end_within(self, grace_ms: int) -> None:
        """Ask once; a later order can only shorten what is left of the grace."""
        kill_at = time.monotonic() + grace_ms / 1_000
        if self._kill_at is None:
            self._kill_at = kill_at
            for pid in self._members:
                _signal_group(pid, self._terms.stop_signal)
                _signal_group(pid, signal.SIGCONT)
        self._kill_at = min(self._kill_at, kill_at)

    def _kill_all(self) -> None:
        for group in self._terms.groups.values():
            group.kill()
        if proc.kill(proc.descendants(os.getpid())):
            self._was_killed = True

    def outcome(self) -> Outcome:
        """How it all ended, once it has."""
        ended = self.failure or Outcome(code=0)
        if self.stop_grace_ms is None:
            return ended
        grace = f"{self.stop_grace_ms / 1_000:g} s"
        how = f"killed after a grace of {grace}" if self._was_killed else f"ended within {grace}"
        own = f"; {ended.detail}" if ended.detail else ""
        return ended._replace(detail=f"stopped as ordered, {how}{own}")


def _become_ordinary() -> None:
    """Undo what a keeper is and a user's program is not."""
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


def _listen_to_signals() -> int:
    """A pipe in which SIGCHLD and SIGTERM show up, so that one poll waits for everything."""
    wake, alarm = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(alarm, False)
    signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, _only_wake)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return wake


def _only_wake(_number: int, _frame: object) -> None:
    """The pipe tells; there is nothing to do inside a signal."""


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 512):
            pass
    except BlockingIOError:
        return


def _read_all(fd: int) -> str:
    """Until every child has become another program or ended."""
    parts = b""
    while part := os.read(fd, 4096):
        parts += part
    os.close(fd)
    return parts.decode(errors="replace").strip()


def _signal_group(leader: int, number: int) -> None:
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        return
