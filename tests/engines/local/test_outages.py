"""Outages of virtual nodes, also across restarts of the control plane."""

from __future__ import annotations

from pathlib import Path

from bursar.engines.local.engine import LocalEngine
from bursar.engines.local.outages import TERMINATE_TIMEOUT_MS, Outages
from bursar.model.engine_report import EngineReport, NoticeReported, TasksEnded
from bursar.model.event import NodeLost, NodeRestored, NoticeKind
from tests.conformance.engine_harness import Listener, LocalHarness, until
from tests.conformance.engine_orders import order, ref, tasks_on
from tests.engines.local.inspect_processes import folder_of, is_running, read_pid

NOTICE = NoticeReported(node="n", source="chaos", kind=NoticeKind.TERMINATE, ends_at_ms=130)
LOST = NodeLost(node="n", at_ms=130)
BACK = NodeRestored(node="n", at_ms=330)


def empty(_node: str) -> bool:
    return True


def test_an_outage_is_announced_then_the_node_is_lost_then_back(tmp_path: Path) -> None:
    outages = Outages(str(tmp_path))
    assert outages.begin("n", 100, notice_ms=30, absence_ms=200) == NOTICE
    assert outages.advance(129, empty) == [] and not outages.is_out("n")
    assert outages.advance(130, lambda _: False) == [] and outages.is_out("n")
    assert outages.advance(131, empty) == [LOST]
    assert outages.advance(329, empty) == [] and outages.is_out("n")
    assert outages.advance(330, empty) == [BACK] and not outages.is_out("n")
    assert outages.advance(999, empty) == []


def test_a_process_that_does_not_end_does_not_delay_the_loss_for_ever(tmp_path: Path) -> None:
    outages = Outages(str(tmp_path))
    assert outages.begin("n", 0, notice_ms=0, absence_ms=10**6) is None
    assert outages.advance(TERMINATE_TIMEOUT_MS - 1, lambda _: False) == []
    assert [type(one) for one in outages.advance(TERMINATE_TIMEOUT_MS, lambda _: False)] == [
        NodeLost
    ]


def test_an_outage_that_has_begun_is_not_begun_again(tmp_path: Path) -> None:
    outages = Outages(str(tmp_path))
    outages.begin("n", 100, notice_ms=30, absence_ms=200)
    assert outages.begin("n", 110, notice_ms=0, absence_ms=5) == NOTICE
    outages.advance(1_000, empty)
    again = outages.begin("n", 1_000, notice_ms=30, absence_ms=200)
    assert isinstance(again, NoticeReported) and again.ends_at_ms == 1_030


def test_the_last_report_is_repeated_after_a_restart_and_no_phase_is_skipped(
    tmp_path: Path,
) -> None:
    folder = str(tmp_path)
    Outages(folder).begin("n", 100, notice_ms=30, absence_ms=200)
    outages = Outages(folder)
    assert outages.last_reports() == [NOTICE]
    assert outages.advance(131, empty) == [LOST]
    outages = Outages(folder)
    assert outages.last_reports() == [LOST]
    assert outages.advance(5_000, empty) == [BACK]
    outages = Outages(folder)
    assert outages.last_reports() == [BACK]
    assert Outages(folder).last_reports() == []


def received_any(listener: Listener, kind: type[EngineReport]) -> bool:
    listener.listen(0.1)
    return any(isinstance(one, kind) for one in listener.received)


def test_all_processes_on_a_node_end_before_its_loss_and_none_elsewhere(
    harness: LocalHarness, tmp_path: Path
) -> None:
    listener = harness.open()
    engine = listener.engine
    assert isinstance(engine, LocalEngine)
    stays = f'echo $$ > {tmp_path}/"$BURSAR_NODE"; exec sleep 300'
    engine.start(order("gang", stays, tasks=tasks_on("a", "b")))
    engine.start(order("other", stays, tasks=tasks_on("c")))
    for name in ("gang", "other"):
        listener.started(ref(name))
    first, second, other = (read_pid(tmp_path / node) for node in ("a", "b", "c"))
    engine.interrupt("b", notice_ms=0, absence_ms=300)
    until("the node is lost", lambda: received_any(listener, NodeLost))
    assert not is_running(first) and not is_running(second)
    assert is_running(other)
    listener.ended(ref("gang"))
    kinds = [type(one) for one in listener.received]
    assert kinds.index(NodeLost) < kinds.index(TasksEnded), "the loss is reported first"
    assert listener.count(TasksEnded, ref("other")) == 0
    until("the node is back", lambda: received_any(listener, NodeRestored))


def test_an_attempt_started_on_a_lost_node_ends_at_once(harness: LocalHarness) -> None:
    listener = harness.open()
    engine = listener.engine
    assert isinstance(engine, LocalEngine)
    engine.interrupt("a", notice_ms=0, absence_ms=60_000)
    until("the node is lost", lambda: received_any(listener, NodeLost))
    engine.start(order("late", "exec sleep 300", tasks=tasks_on("a")))
    assert listener.ended(ref("late")).code != 0


def test_a_loss_is_reported_before_an_end_also_after_a_restart(
    harness: LocalHarness,
) -> None:
    listener = harness.open()
    engine = listener.engine
    assert isinstance(engine, LocalEngine)
    engine.start(order("j", "exec sleep 300", tasks=tasks_on("a")))
    listener.started(ref("j"))
    engine.interrupt("a", notice_ms=0, absence_ms=60_000)
    engine.stop(ref("j"), 0)
    until("it has ended", lambda: (folder_of(harness, ref("j")) / "ended").exists())
    again = harness.open([ref("j")])
    again.ended(ref("j"))
    kinds = [type(one) for one in again.received]
    assert kinds.index(NodeLost) < kinds.index(TasksEnded)
