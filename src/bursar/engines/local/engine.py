"""The local engine: implements ``ports.Engine`` with a supervisor process and attempt folders."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from bursar.engines.local.order_to_plan import make_plan
from bursar.engines.local.outages import Outages
from bursar.engines.local.settings import LocalSettings
from bursar.engines.local.supervisor import attempt_folder as names
from bursar.engines.local.supervisor.attempt_folder import AttemptFolder, BadJobId
from bursar.engines.local.supervisor.log_files import existing_files
from bursar.engines.local.supervisor_client import SupervisorClient
from bursar.engines.local.wakeup_socket import WakeupSocket
from bursar.engines.status_file import StatusFile
from bursar.model.engine_report import EngineReport, TasksEnded
from bursar.model.errors import BrokenInvariant, EngineFault
from bursar.model.event import AttemptStarted, NodeLost, NodeRestored
from bursar.model.fleet.gpu import Layout
from bursar.model.jobs.attempt import Exit
from bursar.model.units import SECOND_MS
from bursar.ports import AttemptRef, LogFile, StartOrder

POLL_SECONDS = 2.0
"""Wake-up datagrams may be lost, so the folders of live attempts are also polled this often."""
NODES_LOST_AFTER_SECONDS = 60.0
"""How long no supervisor can be started before the nodes are reported lost."""


class Connections(NamedTuple):
    """What the engine holds only while it is open."""

    wakeups: WakeupSocket
    supervisor: SupervisorClient
    outages: Outages


class LocalEngine:
    """Runs attempts as processes of this machine, as one or more declared nodes."""

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        self._state = os.path.abspath(settings.state)
        self._lock = threading.Lock()
        self._queue: deque[EngineReport] = deque()
        self._reported: dict[AttemptRef, set[str]] = {}
        """Unsettled attempts, and what has been reported about each."""
        self._status_files: dict[AttemptRef, StatusFile] = {}
        self._terminating: dict[AttemptRef, str] = {}
        """Attempts that end because of a node's outage, by node: the node's loss is reported first."""
        self._outage_lock = threading.Lock()
        self._next_poll = 0.0
        self._unreachable_since: float | None = None
        self._nodes_lost = False
        self._connected: Connections | None = None

    # -- open and close ----------------------------------------------------------------------------

    def open(self, live: Sequence[AttemptRef]) -> None:
        """Listen before reading the folders: a change in between is reported twice, never lost."""
        names.make_folders(self._state)
        engine_folder = names.engine_folder(self._state)
        self._connected = connected = Connections(
            wakeups=WakeupSocket(engine_folder),
            supervisor=SupervisorClient(self._state, self._settings.supervisor_linger_seconds),
            outages=Outages(engine_folder),
        )
        connected.supervisor.ensure_connected()
        self._queue_reports(connected.outages.last_reports())
        live_refs = set(live)
        for folder in names.indexed(self._state):
            ref = AttemptRef(job_id=folder.job_id, attempt=folder.attempt)
            if ref not in live_refs:
                self._end_stale(ref, folder)
        terminating = connected.outages.terminating
        for ref in sorted(live_refs, key=lambda ref: (ref.job_id, ref.attempt)):
            folder = self._folder(ref)
            if folder.is_claimed:
                nodes = (folder.read(names.CLAIM) or {}).get("nodes", ())
                lost = [node for node in terminating if node in nodes]
                if lost:
                    self._terminating[ref] = lost[0]
                self._report_changes(ref)

    def _end_stale(self, ref: AttemptRef, folder: AttemptFolder) -> None:
        """Stop an attempt that the control plane does not list as live: its GPUs are assigned to others."""
        if not folder.has(names.ENDED):
            grace_ms = (folder.read(names.CLAIM) or {}).get("grace_ms", 0)
            self._request_stop(ref, int(grace_ms))
        else:
            Path(folder.entry).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the connections. Attempts keep running."""
        connected, self._connected = self._connected, None
        if connected is not None:
            connected.supervisor.close()
            connected.wakeups.close()

    def unknown(self, live: Sequence[AttemptRef]) -> tuple[AttemptRef, ...]:
        """Attempts that were never claimed. No start sent before ``open`` can still be claimed."""
        return tuple(ref for ref in live if not self._folder(ref).is_claimed)

    # -- orders ------------------------------------------------------------------------------------

    def start(self, order: StartOrder) -> None:
        """Return when the attempt is durably claimed; from then on it can end but not start again."""
        ref = order.ref
        self._folder(ref)
        plan = make_plan(order, self._settings)
        if not plan.tasks:
            raise BrokenInvariant(f"attempt {ref.attempt} of {ref.job_id} has no placement")
        with self._lock:
            self._reported.setdefault(ref, set())
        response = self._open.supervisor.request({"do": "start", "plan": plan.as_message()})
        if not response["new"]:
            self._report_changes(ref)
        with self._outage_lock:
            lost = [task.node for task in plan.tasks if self._open.outages.is_out(task.node)]
            if lost:
                self._terminating[ref] = lost[0]
        if lost:
            self._request_stop(ref, 0)

    def stop(self, ref: AttemptRef, grace_seconds: int) -> None:
        """Stop an attempt. One that was never started is claimed, so that it cannot start any more."""
        has_ended = self._request_stop(ref, grace_seconds * SECOND_MS)
        with self._lock:
            reported = self._reported.setdefault(ref, set())
            if has_ended:
                reported.discard("ended")
        if has_ended:
            self._report_changes(ref)

    def _request_stop(self, ref: AttemptRef, grace_ms: int) -> bool:
        """Send the order; whether the attempt has ended already."""
        message = {"do": "stop", "job_id": ref.job_id, "attempt": ref.attempt, "grace_ms": grace_ms}
        return bool(self._open.supervisor.request(message)["ended"])

    def partition(self, node: str, gpu: int, layout: Layout) -> None:
        """Accept any layout of virtual GPUs; real ones must have it already, as we never change a driver."""
        real = self._settings.gpus.get(node, ())
        if gpu >= len(real):
            return
        if tuple(mig.instance for mig in real[gpu].slices) != tuple(layout):
            wanted = ", ".join(map(str, layout)) or "not partitioned"
            raise EngineFault(
                f"local engine: GPU {gpu} of {node} must be {wanted}; partition it with nvidia-smi mig",
                retry_after_seconds=NODES_LOST_AFTER_SECONDS,
            )

    # -- outages of nodes --------------------------------------------------------------------------

    def interrupt(self, node: str, notice_ms: int, absence_ms: int) -> None:
        """Simulate a provider's interruption of a node, with or without notice."""
        with self._outage_lock:
            report = self._open.outages.begin(node, _now_ms(), notice_ms, absence_ms)
        if report is not None:
            self._queue_reports([report])
        self._open.wakeups.wake()

    def _advance_outages(self) -> None:
        with self._outage_lock:
            self._queue_reports(self._open.outages.advance(_now_ms(), self._kill_all_on))
            terminating = set(self._open.outages.terminating)
            done = [ref for ref, node in self._terminating.items() if node not in terminating]
            for ref in done:
                del self._terminating[ref]
        for ref in done:
            self._report_changes(ref)

    def _kill_all_on(self, node: str) -> bool:
        """Stop every attempt on a node without grace; whether all have ended."""
        all_ended = True
        for ref in self._running():
            folder = self._folder(ref)
            if node not in (folder.read(names.CLAIM) or {}).get("nodes", ()):
                continue
            if ref not in self._terminating:
                self._terminating[ref] = node
                self._request_stop(ref, 0)
            all_ended = all_ended and folder.has(names.ENDED)
        return all_ended

    # -- reports -----------------------------------------------------------------------------------

    def reports(self, timeout_seconds: float) -> Sequence[EngineReport]:
        """Wait for new reports: from wake-up datagrams, and from polling the folders."""
        wakeups = self._open.wakeups
        until = time.monotonic() + timeout_seconds
        while True:
            for message in wakeups.messages():
                ref = AttemptRef(job_id=message["job_id"], attempt=message["attempt"])
                if ref in self._reported:
                    self._report_changes(ref)
            self._advance_outages()
            if time.monotonic() >= self._next_poll:
                self._poll()
            reports = self._drain()
            remaining_seconds = until - time.monotonic()
            if reports or remaining_seconds <= 0:
                return reports
            poll_in_seconds = max(0.0, self._next_poll - time.monotonic())
            wait_seconds = min(remaining_seconds, poll_in_seconds)
            if wakeups.wait(wait_seconds, self._open.supervisor.fileno):
                self._check_supervisor()

    def _poll(self) -> None:
        self._next_poll = time.monotonic() + POLL_SECONDS
        self._check_supervisor()
        for ref in self._running():
            self._report_changes(ref)

    def _running(self) -> list[AttemptRef]:
        """Attempts whose end has not been reported."""
        with self._lock:
            return [ref for ref, reported in self._reported.items() if "ended" not in reported]

    def _check_supervisor(self) -> None:
        """Replace a killed supervisor. Report the nodes lost if that fails for too long."""
        try:
            self._open.supervisor.ensure_connected()
        except EngineFault:
            now = time.monotonic()
            self._unreachable_since = self._unreachable_since or now
            timed_out = now - self._unreachable_since > NODES_LOST_AFTER_SECONDS
            if timed_out and not self._nodes_lost:
                self._nodes_lost = True
                self._queue_reports(
                    NodeLost(node=node, at_ms=_now_ms()) for node in self._settings.nodes
                )
            return
        self._unreachable_since = None
        if self._nodes_lost:
            self._nodes_lost = False
            self._queue_reports(
                NodeRestored(node=node, at_ms=_now_ms()) for node in self._settings.nodes
            )

    def _report_changes(self, ref: AttemptRef) -> None:
        """Report what an attempt's folder contains and has not been reported yet."""
        folder = self._folder(ref)
        ended = folder.read(names.ENDED)
        began = folder.read(names.BEGAN)
        with self._lock:
            reported = self._reported.setdefault(ref, set())
            if began is not None and "began" not in reported:
                reported.add("began")
                at_ms = int(began.get("at_ms", 0))
                self._queue.append(
                    AttemptStarted(job_id=ref.job_id, attempt=ref.attempt, at_ms=at_ms)
                )
            if "ended" not in reported:
                new_file = StatusFile(folder.file(names.SAVED), ref)
                self._queue += self._status_files.setdefault(ref, new_file).new_reports()
            if ended is not None and "ended" not in reported and ref not in self._terminating:
                reported.add("ended")
                at_ms = int(ended.get("at_ms", 0))
                self._queue.append(
                    TasksEnded(
                        job_id=ref.job_id, attempt=ref.attempt, at_ms=at_ms, exit=_exit(ended)
                    )
                )
        self._open.wakeups.wake()

    def _queue_reports(self, reports: Iterable[EngineReport]) -> None:
        with self._lock:
            self._queue += reports

    def _drain(self) -> list[EngineReport]:
        with self._lock:
            reports = list(self._queue)
            self._queue.clear()
        return reports

    def settled(self, refs: Iterable[AttemptRef]) -> None:
        """Remove attempts from the index. Their claims stay, so they can never run again."""
        for ref in refs:
            Path(self._folder(ref).entry).unlink(missing_ok=True)
            with self._lock:
                self._reported.pop(ref, None)
                self._status_files.pop(ref, None)

    # -- stored files ------------------------------------------------------------------------------

    def logs(self, ref: AttemptRef) -> Sequence[LogFile]:
        """Two streams for each task that wrote something."""
        folder = self._folder(ref)
        claim = folder.read(names.CLAIM) or {}
        files = int(claim.get("log_files", self._settings.log_files))
        logs = []
        for task, node in enumerate(claim.get("nodes", ())):
            for stream, ending in (("stdout", "out"), ("stderr", "err")):
                paths = existing_files(folder.file(f"task-{task}.{ending}"), files)
                if paths:
                    logs.append(LogFile(task=task, node=node, stream=stream, paths=paths))
        return logs

    def _folder(self, ref: AttemptRef) -> AttemptFolder:
        try:
            return AttemptFolder(self._state, ref.job_id, ref.attempt)
        except BadJobId as problem:
            raise BrokenInvariant(str(problem)) from None

    @property
    def _open(self) -> Connections:
        if self._connected is None:
            raise EngineFault("local engine: it is not open", retry_after_seconds=1.0)
        return self._connected


def _exit(record: dict[str, object]) -> Exit:
    code, signal, detail = record.get("code"), record.get("signal"), record.get("detail", "")
    return Exit(
        code=code if isinstance(code, int) else None,
        signal=signal if isinstance(signal, int) else None,
        detail=str(detail),
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
