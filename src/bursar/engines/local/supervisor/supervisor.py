"""The warden: takes orders over a socket, forks a keeper for each attempt, and buries what lost its keeper.

It is a process of its own, so that a restart of the control plane is nothing to a running job, and a
small one without third-party code, so that forking it is cheap. It keeps nothing in memory that it
could not find again on disk: when it is killed, the next one goes on.
"""

from __future__ import annotations

import fcntl
import gc
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
import traceback

from bursar.engines.local.supervisor import attempt_folder as names
from bursar.engines.local.supervisor import socket_messages
from bursar.engines.local.supervisor.attempt_folder import AttemptFolder
from bursar.engines.local.supervisor.attempt_plan import AttemptPlan, Outcome, read_plan
from bursar.engines.local.supervisor.attempt_process import keep, signal_keeper
from bursar.engines.local.supervisor.orphan_cleanup import OrphanCleanup, has_keeper
from bursar.engines.local.supervisor.proc import adopt_orphans, boot_id, call_me
from bursar.engines.local.supervisor.socket_messages import Message

LOCK_WAIT_SECONDS = 3.0
STALLED_SECONDS = 10.0
SIGNALS = (signal.SIGCHLD, signal.SIGTERM)


def main(state: str, linger_seconds: float) -> None:
    """Become a process of its own and serve; returns at once when another warden serves already."""
    if os.fork():
        os._exit(0)
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    names.make_folders(state)
    lock = _lock(os.path.join(names.engine_folder(state), "warden.lock"))
    if lock is None:
        return
    call_me("bursar-warden")
    adopt_orphans()
    warden = Supervisor(state, lock, linger_seconds)
    # What is in memory by now is never looked at again, so keepers go on sharing its pages.
    gc.collect()
    gc.freeze()
    warden.serve()


def _lock(path: str) -> int | None:
    """One warden for each state folder. A keeper just forked by a dying one may hold on for a moment."""
    fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    until = time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(fd)
                return None
            time.sleep(0.01)


class Supervisor:
    """One thread, one poll, no state that matters."""

    def __init__(self, state: str, lock: int, linger_seconds: float) -> None:
        self._state = state
        self._lock = lock
        self._linger_seconds = linger_seconds
        self._keepers: dict[int, AttemptFolder] = {}
        self._burials = OrphanCleanup(
            self._keepers, socket_messages.open_folder(names.engine_folder(state))
        )
        self._folder_fd = socket_messages.open_folder(names.engine_folder(state))
        self._listener = self._listen()
        self._client: socket.socket | None = None
        self._poll = select.poll()
        self._poll.register(self._listener, select.POLLIN)
        self._wake, self._alarm = os.pipe()
        for fd in (self._wake, self._alarm):
            os.set_blocking(fd, False)
        self._poll.register(self._wake, select.POLLIN)
        self._leaving = False
        self._idle_since = time.monotonic()

    def _listen(self) -> socket.socket:
        path = socket_messages.short_path(self._folder_fd, socket_messages.WARDEN_SOCKET)
        if os.path.lexists(path):
            os.unlink(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(8)
        return listener

    # -- the loop ----------------------------------------------------------------------------------

    def serve(self) -> None:
        """Until nobody needs it, or it is told to go. Keepers never notice."""
        signal.set_wakeup_fd(self._alarm, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.signal(signal.SIGTERM, self._leave)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self._burials.find_lost(self._state)
        while not self._leaving and not self._is_idle():
            for fd, _ in self._poll.poll(self._wait_seconds() * 1_000):
                if fd == self._listener.fileno():
                    self._accept()
                elif fd == self._wake:
                    self._reap()
                elif self._client is not None and fd == self._client.fileno():
                    self._answer(self._client)
            self._burials.go_on()
        self._drop_client(None)

    def _leave(self, _number: int, _frame: object) -> None:
        self._leaving = True

    def _wait_seconds(self) -> float:
        return min(self._burials.wait_seconds, self._linger_seconds, 60.0)

    def _is_idle(self) -> bool:
        if self._client is not None or self._keepers or self._burials.is_watching:
            self._idle_since = time.monotonic()
        return time.monotonic() - self._idle_since > self._linger_seconds

    def _reap(self) -> None:
        try:
            while os.read(self._wake, 512):
                pass
        except BlockingIOError:
            pass
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            folder = self._keepers.pop(pid, None)
            if folder is not None and not folder.has(names.ENDED):
                self._burials.add(folder)

    # -- the control plane -------------------------------------------------------------------------

    def _accept(self) -> None:
        """The newest control plane is the right one: what an older one sent and we did not read is void."""
        client, _ = self._listener.accept()
        size = struct.calcsize("3i")
        _, uid, _ = struct.unpack(
            "3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        )
        if uid not in (os.getuid(), 0):
            client.close()
            return
        client.settimeout(STALLED_SECONDS)
        self._drop_client({"replaced": True})
        self._client = client
        self._poll.register(client, select.POLLIN)

    def _drop_client(self, last_word: Message | None) -> None:
        if self._client is None:
            return
        client, self._client = self._client, None
        self._poll.unregister(client)
        try:
            if last_word is not None:
                socket_messages.send(client, last_word)
        except OSError:
            pass
        client.close()

    def _answer(self, client: socket.socket) -> None:
        try:
            message = socket_messages.receive(client)
            if message is None:
                self._drop_client(None)
                return
            socket_messages.send(client, self._carry_out(message))
        except (OSError, ValueError):
            self._drop_client(None)

    def _carry_out(self, message: Message) -> Message:
        """What was done, or why not. Every order may be repeated."""
        try:
            match message.get("do"):
                case "hello":
                    return {"ok": True, "version": socket_messages.VERSION, "pid": os.getpid()}
                case "start":
                    return self._start(read_plan(message["plan"]))
                case "stop":
                    folder = AttemptFolder(self._state, message["job_id"], message["attempt"])
                    return self._stop(folder, int(message["grace_ms"]))
                case "retire":
                    self._leaving = True
                    return {"ok": True}
                case unknown:
                    return {
                        "ok": False,
                        "problem": f"the warden does not know the order {unknown!r}",
                    }
        except OSError as problem:
            return {
                "ok": False,
                "problem": f"{problem.strerror}: {problem.filename or 'a process'}",
            }
        except (KeyError, TypeError, ValueError) as problem:
            return {"ok": False, "problem": f"the warden cannot read the order: {problem}"}

    # -- orders ------------------------------------------------------------------------------------

    def _start(self, plan: AttemptPlan) -> Message:
        folder = AttemptFolder(self._state, plan.job_id, plan.attempt)
        if plan.workdir or plan.mounts:
            # Imported here once rather than by each keeper, and only where archives are used.
            pass
        key = os.urandom(16).hex()
        mark = folder.take(
            {
                "key": key,
                "boot": boot_id(),
                "nodes": [task.node for task in plan.tasks],
                "grace_ms": plan.grace_ms,
                "cgroup": plan.cgroup,
                "log_files": plan.log_files,
            }
        )
        if mark is None:
            return {"ok": True, "new": False}
        try:
            fcntl.flock(mark, fcntl.LOCK_EX)
            self._fork_keeper(folder, plan, key)
        except OSError as problem:
            end_unstarted(folder, f"not started: the machine failed it: {problem.strerror}")
        finally:
            os.close(mark)
        return {"ok": True, "new": True}

    def _fork_keeper(self, folder: AttemptFolder, plan: AttemptPlan, key: str) -> None:
        """Signals wait until the keeper can take them; its lock on the mark is inherited."""
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            pid = os.fork()
            if pid == 0:
                self._be_keeper(folder, plan, key)
            self._keepers[pid] = folder
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def _be_keeper(self, folder: AttemptFolder, plan: AttemptPlan, key: str) -> None:
        try:
            signal.set_wakeup_fd(-1)
            for fd in (self._lock, self._wake, self._alarm, self._folder_fd):
                os.close(fd)
            self._listener.close()
            if self._client is not None:
                self._client.close()
            keep(folder, plan, key)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)

    def _stop(self, folder: AttemptFolder, grace_ms: int) -> Message:
        if folder.has(names.ENDED):
            return {"ok": True, "ended": True}
        mark = folder.take({"nodes": [], "grace_ms": grace_ms})
        if mark is not None:
            # Taken here, it cannot be started any more, should that order still be on its way.
            os.close(mark)
            end_unstarted(folder, "stopped as ordered, before it was started")
            return {"ok": True, "ended": True}
        folder.settle_in()
        folder.write(names.STOP, {"grace_ms": grace_ms})
        if not signal_keeper(folder) and not has_keeper(folder):
            self._burials.add(folder)
        return {"ok": True, "ended": folder.has(names.ENDED)}


def end_unstarted(folder: AttemptFolder, detail: str) -> None:
    """An attempt of which no process ever ran."""
    outcome = Outcome(detail=detail)
    folder.write_end({"at_ms": time.time_ns() // 1_000_000, **outcome._asdict()})
