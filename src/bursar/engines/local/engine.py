"""The local engine: ``ports.Engine`` over a warden, its keepers and the folders of attempts."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from bursar.engines.local.order_to_plan import plan_of
from bursar.engines.local.outages import Outages
from bursar.engines.local.settings import LocalSettings
from bursar.engines.local.supervisor import attempt_folder as names
from bursar.engines.local.supervisor.attempt_folder import AttemptFolder, BadJobId
from bursar.engines.local.supervisor.log_files import parts_of
from bursar.engines.local.supervisor_client import SupervisorClient
from bursar.engines.local.wakeup_socket import WakeupSocket
from bursar.engines.status_file import StatusFile
from bursar.model.engine_report import EngineReport, NodeBackReported, NodeLostReported
from bursar.model.engine_report import TasksEnded as Ended
from bursar.model.engine_report import TasksStarted as Started
from bursar.model.errors import BrokenInvariant, EngineFault
from bursar.model.fleet.gpu import Layout
from bursar.model.jobs.attempt import Exit
from bursar.model.units import SECOND_MS
from bursar.ports import AttemptRef, LogFile, StartOrder

LOOK_AGAIN_SECONDS = 2.0
"""Notes of keepers are only hints; so often the folders of live attempts are read as well."""
GONE_AFTER_SECONDS = 60.0
"""How long no warden can be started before its nodes count as gone."""


class Connections(NamedTuple):
    """What the engine has only while it is open."""

    wakeups: WakeupSocket
    supervisor: SupervisorClient
    outages: Outages


class LocalEngine:
    """Runs attempts as processes of this machine, as one or more declared nodes."""

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        self._state = os.path.abspath(settings.state)
        self._around = settings.surroundings()
        self._lock = threading.Lock()
        self._queue: deque[EngineReport] = deque()
        self._told: dict[AttemptRef, set[str]] = {}
        """Unsettled attempts, and what was reported of each."""
        self._files: dict[AttemptRef, StatusFile] = {}
        """What they say of themselves."""
        self._dying: dict[AttemptRef, str] = {}
        """Attempts that end because their node is taken away, and the node: its loss is told first."""
        self._outage_lock = threading.Lock()
        self._next_look = 0.0
        self._silent_since: float | None = None
        self._nodes_gone = False
        self._connected: Connections | None = None

    # -- coming and going --------------------------------------------------------------------------

    def open(self, live: Sequence[AttemptRef]) -> None:
        """Listen first, then look: what happens in between is told twice rather than not at all."""
        names.make_folders(self._state)
        engine_folder = names.engine_folder(self._state)
        self._connected = connected = Connections(
            wakeups=WakeupSocket(engine_folder),
            supervisor=SupervisorClient(self._state, self._settings.warden_linger_seconds),
            outages=Outages(engine_folder),
        )
        connected.supervisor.keep_up()
        for said in connected.outages.again():
            self._tell(said)
        wanted = set(live)
        for folder in names.indexed(self._state):
            ref = AttemptRef(job_id=folder.job_id, attempt=folder.attempt)
            if ref not in wanted:
                self._let_go(ref, folder)
        dying = connected.outages.dying
        for ref in sorted(wanted, key=lambda ref: (ref.job_id, ref.attempt)):
            folder = self._folder(ref)
            if folder.is_taken:
                nodes = (folder.read(names.TAKEN) or {}).get("nodes", ())
                gone = [node for node in dying if node in nodes]
                if gone:
                    self._dying[ref] = gone[0]
                self._follow(ref)

    def _let_go(self, ref: AttemptRef, folder: AttemptFolder) -> None:
        """An attempt that the control plane does not count as live must not run: its room is given away."""
        if not folder.has(names.ENDED):
            grace_ms = (folder.read(names.TAKEN) or {}).get("grace_ms", 0)
            self._ask_to_stop(ref, int(grace_ms))
        else:
            _unlink(folder.entry)

    def close(self) -> None:
        """Let go. What runs goes on running."""
        connected, self._connected = self._connected, None
        if connected is not None:
            connected.supervisor.close()
            connected.wakeups.close()

    def unknown(self, live: Sequence[AttemptRef]) -> tuple[AttemptRef, ...]:
        """Nothing that was sent before ``open`` can still be taken: the warden reads the newest only."""
        return tuple(ref for ref in live if not self._folder(ref).is_taken)

    # -- orders ------------------------------------------------------------------------------------

    def start(self, order: StartOrder) -> None:
        """Returns when the attempt is durably taken; from then on it can end but not start again."""
        ref = order.ref
        self._folder(ref)
        plan = plan_of(order, self._around)
        if not plan.tasks:
            raise BrokenInvariant(f"attempt {ref.attempt} of {ref.job_id} is placed nowhere")
        with self._lock:
            self._told.setdefault(ref, set())
        answer = self._open.supervisor.request({"do": "start", "plan": plan.as_message()})
        if not answer["new"]:
            self._follow(ref)
        with self._outage_lock:
            gone = [task.node for task in plan.tasks if self._open.outages.is_out(task.node)]
            if gone:
                self._dying[ref] = gone[0]
        if gone:
            self._ask_to_stop(ref, 0)

    def stop(self, ref: AttemptRef, grace_seconds: int) -> None:
        """Also what was never started: it is marked so that it cannot start any more."""
        if self._ask_to_stop(ref, grace_seconds * SECOND_MS):
            with self._lock:
                self._told.setdefault(ref, set()).discard("ended")
            self._follow(ref)
        else:
            with self._lock:
                self._told.setdefault(ref, set())

    def _ask_to_stop(self, ref: AttemptRef, grace_ms: int) -> bool:
        """Whether it has ended already."""
        message = {"do": "stop", "job_id": ref.job_id, "attempt": ref.attempt, "grace_ms": grace_ms}
        return bool(self._open.supervisor.request(message)["ended"])

    def partition(self, node: str, gpu: int, layout: Layout) -> None:
        """Virtual GPUs are cut by counting. Real ones must be cut so already: we never change a driver."""
        real = self._settings.gpus.get(node, ())
        if gpu >= len(real):
            return
        cut = tuple(found.instance for found in real[gpu].slices)
        if cut != tuple(layout):
            wanted = ", ".join(map(str, layout)) or "not cut"
            raise EngineFault(
                f"local engine: GPU {gpu} of {node} must be {wanted}; cut it with nvidia-smi mig",
                retry_after_seconds=GONE_AFTER_SECONDS,
            )

    # -- nodes that go and come back ---------------------------------------------------------------

    def interrupt(self, node: str, notice_ms: int, absence_ms: int) -> None:
        """Take a node away as its provider would: after a notice, or without one, and for a while."""
        with self._outage_lock:
            said = self._open.outages.begin(node, _now_ms(), notice_ms, absence_ms)
        if said is not None:
            self._tell(said)
        self._open.wakeups.ring()

    def _pass_outages(self) -> None:
        with self._outage_lock:
            for said in self._open.outages.go_on(_now_ms(), self._clear):
                self._tell(said)
            still_dying = set(self._open.outages.dying)
            done = [ref for ref, node in self._dying.items() if node not in still_dying]
            for ref in done:
                del self._dying[ref]
        for ref in done:
            self._follow(ref)

    def _clear(self, node: str) -> bool:
        """End what runs on a node without grace; whether nothing runs there any more."""
        with self._lock:
            unfinished = [ref for ref, told in self._told.items() if "ended" not in told]
        left = False
        for ref in unfinished:
            folder = self._folder(ref)
            if node not in (folder.read(names.TAKEN) or {}).get("nodes", ()):
                continue
            if ref not in self._dying:
                self._dying[ref] = node
                self._ask_to_stop(ref, 0)
            left = left or not folder.has(names.ENDED)
        return not left

    # -- reports -----------------------------------------------------------------------------------

    def reports(self, timeout_seconds: float) -> Sequence[EngineReport]:
        """What keepers told; every now and then also what can be read in the folders."""
        box = self._open.wakeups
        until = time.monotonic() + timeout_seconds
        while True:
            self._take_notes(box)
            self._pass_outages()
            if time.monotonic() >= self._next_look:
                self._look_again()
            found = self._drain()
            left = until - time.monotonic()
            if found or left <= 0:
                return found
            wait_seconds = min(left, max(0.0, self._next_look - time.monotonic()))
            if box.wait(wait_seconds, self._open.supervisor.fileno):
                self._keep_up()

    def _take_notes(self, box: WakeupSocket) -> None:
        for note in box.notes():
            ref = AttemptRef(job_id=note["job_id"], attempt=note["attempt"])
            if ref in self._told:
                self._follow(ref)

    def _look_again(self) -> None:
        self._next_look = time.monotonic() + LOOK_AGAIN_SECONDS
        self._keep_up()
        with self._lock:
            unfinished = [ref for ref, told in self._told.items() if "ended" not in told]
        for ref in unfinished:
            self._follow(ref)

    def _keep_up(self) -> None:
        """A killed warden is replaced. Only when that fails for long are the nodes gone."""
        try:
            self._open.supervisor.keep_up()
        except EngineFault as fault:
            problem = str(fault)
            now = time.monotonic()
            self._silent_since = self._silent_since or now
            if now - self._silent_since > GONE_AFTER_SECONDS and not self._nodes_gone:
                self._nodes_gone = True
                self._tell_of_nodes(
                    lambda node: NodeLostReported(node=node, at_ms=_now_ms(), detail=problem)
                )
            return
        self._silent_since = None
        if self._nodes_gone:
            self._nodes_gone = False
            self._tell_of_nodes(lambda node: NodeBackReported(node=node, at_ms=_now_ms()))

    def _tell_of_nodes(self, report: Callable[[str], EngineReport]) -> None:
        for node in self._settings.nodes:
            self._tell(report(node))

    def _follow(self, ref: AttemptRef) -> None:
        """Report of an attempt what its folder says and was not reported yet."""
        folder = self._folder(ref)
        ended = folder.read(names.ENDED)
        began = folder.read(names.BEGAN)
        with self._lock:
            told = self._told.setdefault(ref, set())
            if began is not None and "began" not in told:
                told.add("began")
                at_ms = int(began.get("at_ms", 0))
                self._queue.append(Started(job_id=ref.job_id, attempt=ref.attempt, at_ms=at_ms))
            if "ended" not in told:
                path = folder.file(names.SAVED)
                self._queue += self._files.setdefault(ref, StatusFile(path, ref)).news()
            if ended is not None and "ended" not in told and ref not in self._dying:
                told.add("ended")
                at_ms = int(ended.get("at_ms", 0))
                self._queue.append(
                    Ended(job_id=ref.job_id, attempt=ref.attempt, at_ms=at_ms, exit=_exit(ended))
                )
        self._open.wakeups.ring()

    def _tell(self, report: EngineReport) -> None:
        with self._lock:
            self._queue.append(report)

    def _drain(self) -> list[EngineReport]:
        with self._lock:
            found = list(self._queue)
            self._queue.clear()
        return found

    def settled(self, refs: Iterable[AttemptRef]) -> None:
        """Their marks stay, so that they can never run again; the index forgets them."""
        for ref in refs:
            _unlink(self._folder(ref).entry)
            with self._lock:
                self._told.pop(ref, None)
                self._files.pop(ref, None)

    # -- what is kept ------------------------------------------------------------------------------

    def logs(self, ref: AttemptRef) -> Sequence[LogFile]:
        """Two streams for each task that wrote something."""
        folder = self._folder(ref)
        mark = folder.read(names.TAKEN) or {}
        files = int(mark.get("log_files", self._around.log_files))
        found = []
        for task, node in enumerate(mark.get("nodes", ())):
            for stream, ending in (("stdout", "out"), ("stderr", "err")):
                paths = parts_of(folder.file(f"task-{task}.{ending}"), files)
                if paths:
                    found.append(LogFile(task=task, node=node, stream=stream, paths=paths))
        return found

    def forget(self, job_ids: Iterable[str]) -> tuple[str, ...]:
        """Remove everything that is kept of these jobs; gives those that are not over and stay."""
        kept = []
        for job_id in job_ids:
            attempts = os.path.dirname(self._folder(AttemptRef(job_id=job_id, attempt=0)).path)
            numbers = [name for name in _listed(attempts) if name.isdecimal()]
            folders = [AttemptFolder(self._state, job_id, int(number)) for number in numbers]
            if any(os.path.exists(folder.entry) for folder in folders):
                kept.append(job_id)
            else:
                shutil.rmtree(attempts, ignore_errors=True)
        return tuple(kept)

    # -- parts -------------------------------------------------------------------------------------

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


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
