"""The supervisor process: receives orders over a socket and forks a process for each attempt.

It is a separate process, so that jobs survive a restart of the control plane, and a small one without
third-party code, so that forking it is cheap. All of its state is on disk: when it is killed, the next
supervisor continues.
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
from bursar.engines.local.supervisor.attempt_process import run_attempt, wake_attempt_process
from bursar.engines.local.supervisor.orphan_cleanup import OrphanCleanup, has_attempt_process
from bursar.engines.local.supervisor.proc import adopt_orphans, boot_id, set_process_name
from bursar.engines.local.supervisor.socket_messages import Message

LOCK_WAIT_SECONDS = 3.0
STALLED_SECONDS = 10.0
SIGNALS = (signal.SIGCHLD, signal.SIGTERM)


def main(state: str, linger_seconds: float) -> None:
    """Detach and serve; returns at once if another supervisor serves this state folder."""
    if os.fork():
        os._exit(0)
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    names.make_folders(state)
    lock = _lock(os.path.join(names.engine_folder(state), "supervisor.lock"))
    if lock is None:
        return
    set_process_name("bursar-superv")
    adopt_orphans()
    supervisor = Supervisor(state, lock, linger_seconds)
    # Objects that exist now stay; without collections, forked processes keep sharing their pages.
    gc.collect()
    gc.freeze()
    supervisor.serve()


def _lock(path: str) -> int | None:
    """Lock the state folder. A process just forked by a killed supervisor may hold the lock briefly."""
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
    """One thread with one poll loop; all lasting state is on disk."""

    def __init__(self, state: str, lock: int, linger_seconds: float) -> None:
        self._state = state
        self._lock = lock
        self._linger_seconds = linger_seconds
        self._attempts: dict[int, AttemptFolder] = {}
        self._orphans = OrphanCleanup(
            self._attempts, socket_messages.open_folder(names.engine_folder(state))
        )
        self._folder_fd = socket_messages.open_folder(names.engine_folder(state))
        self._listener = self._listen()
        self._client: socket.socket | None = None
        self._poll = select.poll()
        self._poll.register(self._listener, select.POLLIN)
        self._signal_read, self._signal_write = os.pipe()
        for fd in (self._signal_read, self._signal_write):
            os.set_blocking(fd, False)
        self._poll.register(self._signal_read, select.POLLIN)
        self._retiring = False
        self._idle_since = time.monotonic()

    def _listen(self) -> socket.socket:
        path = socket_messages.short_path(self._folder_fd, socket_messages.SUPERVISOR_SOCKET)
        if os.path.lexists(path):
            os.unlink(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(8)
        return listener

    # -- the loop ----------------------------------------------------------------------------------

    def serve(self) -> None:
        """Run until idle for long enough or asked to retire. Attempts are not affected."""
        signal.set_wakeup_fd(self._signal_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.signal(signal.SIGTERM, self._retire)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self._orphans.find_lost(self._state)
        while not self._retiring and not self._is_idle():
            wait_seconds = min(self._orphans.wait_seconds, self._linger_seconds, 60.0)
            for fd, _ in self._poll.poll(wait_seconds * 1_000):
                if fd == self._listener.fileno():
                    self._accept()
                elif fd == self._signal_read:
                    self._reap()
                elif self._client is not None and fd == self._client.fileno():
                    self._respond(self._client)
            self._orphans.advance()
        self._drop_client(None)

    def _retire(self, _number: int, _frame: object) -> None:
        self._retiring = True

    def _is_idle(self) -> bool:
        if self._client is not None or self._attempts or self._orphans.is_watching:
            self._idle_since = time.monotonic()
        return time.monotonic() - self._idle_since > self._linger_seconds

    def _reap(self) -> None:
        try:
            while os.read(self._signal_read, 512):
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
            folder = self._attempts.pop(pid, None)
            if folder is not None and not folder.has(names.ENDED):
                self._orphans.add(folder)

    # -- the control plane -------------------------------------------------------------------------

    def _accept(self) -> None:
        """Accept the newest control plane only; unread orders of an older one are dropped."""
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

    def _drop_client(self, last_message: Message | None) -> None:
        if self._client is None:
            return
        client, self._client = self._client, None
        self._poll.unregister(client)
        try:
            if last_message is not None:
                socket_messages.send(client, last_message)
        except OSError:
            pass
        client.close()

    def _respond(self, client: socket.socket) -> None:
        try:
            message = socket_messages.receive(client)
            if message is None:
                self._drop_client(None)
                return
            socket_messages.send(client, self._carry_out(message))
        except (OSError, ValueError):
            self._drop_client(None)

    def _carry_out(self, message: Message) -> Message:
        """Carry out an order and return the response. Every order is idempotent."""
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
                    self._retiring = True
                    return {"ok": True}
                case unknown:
                    return {
                        "ok": False,
                        "problem": f"unknown order {unknown!r}",
                    }
        except OSError as problem:
            return {
                "ok": False,
                "problem": f"{problem.strerror}: {problem.filename or 'a process'}",
            }
        except (KeyError, TypeError, ValueError) as problem:
            return {"ok": False, "problem": f"invalid order: {problem}"}

    # -- orders ------------------------------------------------------------------------------------

    def _start(self, plan: AttemptPlan) -> Message:
        folder = AttemptFolder(self._state, plan.job_id, plan.attempt)
        key = os.urandom(16).hex()
        claim = folder.claim(
            {
                "key": key,
                "boot": boot_id(),
                "nodes": [task.node for task in plan.tasks],
                "grace_ms": plan.grace_ms,
                "cgroup": plan.cgroup,
                "log_files": plan.log_files,
            }
        )
        if claim is None:
            return {"ok": True, "new": False}
        try:
            fcntl.flock(claim, fcntl.LOCK_EX)
            self._fork_attempt(folder, plan, key)
        except OSError as problem:
            record_unstarted_end(folder, f"not started: system error: {problem.strerror}")
        finally:
            os.close(claim)
        return {"ok": True, "new": True}

    def _fork_attempt(self, folder: AttemptFolder, plan: AttemptPlan, key: str) -> None:
        """Fork with signals blocked until the child handles them; it inherits the lock on the claim."""
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            pid = os.fork()
            if pid == 0:
                self._run_child(folder, plan, key)
            self._attempts[pid] = folder
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def _run_child(self, folder: AttemptFolder, plan: AttemptPlan, key: str) -> None:
        try:
            signal.set_wakeup_fd(-1)
            for fd in (self._lock, self._signal_read, self._signal_write, self._folder_fd):
                os.close(fd)
            self._listener.close()
            if self._client is not None:
                self._client.close()
            run_attempt(folder, plan, key)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)

    def _stop(self, folder: AttemptFolder, grace_ms: int) -> Message:
        if folder.has(names.ENDED):
            return {"ok": True, "ended": True}
        claim = folder.claim({"nodes": [], "grace_ms": grace_ms})
        if claim is not None:
            # With this claim a delayed start order has no effect.
            os.close(claim)
            record_unstarted_end(folder, "stopped as ordered, before it was started")
            return {"ok": True, "ended": True}
        folder.link_claim()
        folder.write(names.STOP, {"grace_ms": grace_ms})
        if not wake_attempt_process(folder) and not has_attempt_process(folder):
            self._orphans.add(folder)
        return {"ok": True, "ended": folder.has(names.ENDED)}


def record_unstarted_end(folder: AttemptFolder, detail: str) -> None:
    """Record the end of an attempt of which no process ever ran."""
    outcome = Outcome(detail=detail)
    folder.write_end({"at_ms": time.time_ns() // 1_000_000, **outcome._asdict()})
