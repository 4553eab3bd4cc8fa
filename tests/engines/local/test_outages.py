"""Virtual nodes that are taken away and come back, also when nobody was there to hear of it."""

from __future__ import annotations

from pathlib import Path

from bursar.engines.local.engine import LocalEngine
from bursar.engines.local.outages import DYING_MS, Outages
from bursar.model.engine_report import (
    EngineReport,
    NodeBackReported,
    NodeLostReported,
    NoticeReported,
    TasksEnded,
)
from bursar.model.event import NoticeKind
from tests.conformance.engine_orders import order, ref, tasks_on
from tests.conformance.engine_stands import Listener, LocalStand, until
from tests.engines.local.looking import folder_of, is_running, read_pid

NOTICE = NoticeReported(node="n", source="chaos", kind=NoticeKind.TERMINATE, ends_at_ms=130)
GONE = NodeLostReported(node="n", at_ms=130, detail="taken away")
BACK = NodeBackReported(node="n", at_ms=330)


def empty(_node: str) -> bool:
    return True


def test_a_node_is_announced_then_gone_then_back(tmp_path: Path) -> None:
    book = Outages(str(tmp_path))
    assert book.begin("n", 100, notice_ms=30, absence_ms=200) == NOTICE
    assert book.go_on(129, empty) == [] and not book.is_out("n")
    assert book.go_on(130, lambda _: False) == [] and book.is_out("n")
    assert book.go_on(131, empty) == [GONE]
    assert book.go_on(329, empty) == [] and book.is_out("n")
    assert book.go_on(330, empty) == [BACK] and not book.is_out("n")
    assert book.go_on(999, empty) == []


def test_what_does_not_die_does_not_keep_its_node(tmp_path: Path) -> None:
    book = Outages(str(tmp_path))
    assert book.begin("n", 0, notice_ms=0, absence_ms=10**6) is None
    assert book.go_on(DYING_MS - 1, lambda _: False) == []
    assert [type(one) for one in book.go_on(DYING_MS, lambda _: False)] == [NodeLostReported]


def test_a_node_that_is_going_is_not_taken_away_twice(tmp_path: Path) -> None:
    book = Outages(str(tmp_path))
    book.begin("n", 100, notice_ms=30, absence_ms=200)
    assert book.begin("n", 110, notice_ms=0, absence_ms=5) == NOTICE
    book.go_on(1_000, empty)
    again = book.begin("n", 1_000, notice_ms=30, absence_ms=200)
    assert isinstance(again, NoticeReported) and again.ends_at_ms == 1_030


def test_the_last_word_is_repeated_after_a_restart_and_nothing_is_skipped(tmp_path: Path) -> None:
    folder = str(tmp_path)
    Outages(folder).begin("n", 100, notice_ms=30, absence_ms=200)
    book = Outages(folder)
    assert book.again() == [NOTICE]
    assert book.go_on(131, empty) == [GONE]
    book = Outages(folder)
    assert book.again() == [GONE]
    assert book.go_on(5_000, empty) == [BACK]
    book = Outages(folder)
    assert book.again() == [BACK]
    assert Outages(folder).again() == []


def heard_of(listener: Listener, kind: type[EngineReport]) -> bool:
    listener.listen(0.1)
    return any(isinstance(one, kind) for one in listener.heard)


def test_everything_on_a_node_dies_before_it_is_gone_and_nothing_elsewhere(
    stand: LocalStand, tmp_path: Path
) -> None:
    listener = stand.open()
    engine = listener.engine
    assert isinstance(engine, LocalEngine)
    stays = f'echo $$ > {tmp_path}/"$BURSAR_NODE"; exec sleep 300'
    engine.start(order("gang", stays, tasks=tasks_on("a", "b")))
    engine.start(order("other", stays, tasks=tasks_on("c")))
    for name in ("gang", "other"):
        listener.started(ref(name))
    first, second, other = (read_pid(tmp_path / node) for node in ("a", "b", "c"))
    engine.interrupt("b", notice_ms=0, absence_ms=300)
    until("the node is gone", lambda: heard_of(listener, NodeLostReported))
    assert not is_running(first) and not is_running(second)
    assert is_running(other)
    listener.ended(ref("gang"))
    kinds = [type(one) for one in listener.heard]
    assert kinds.index(NodeLostReported) < kinds.index(TasksEnded), "its loss is told first"
    assert listener.count(TasksEnded, ref("other")) == 0
    until("the node is back", lambda: heard_of(listener, NodeBackReported))


def test_what_reaches_a_node_too_late_ends_at_once(stand: LocalStand) -> None:
    listener = stand.open()
    engine = listener.engine
    assert isinstance(engine, LocalEngine)
    engine.interrupt("a", notice_ms=0, absence_ms=60_000)
    until("the node is gone", lambda: heard_of(listener, NodeLostReported))
    engine.start(order("late", "exec sleep 300", tasks=tasks_on("a")))
    assert listener.ended(ref("late")).code != 0


def test_a_loss_is_told_before_an_end_also_when_the_killer_was_killed(stand: LocalStand) -> None:
    listener = stand.open()
    engine = listener.engine
    assert isinstance(engine, LocalEngine)
    engine.start(order("j", "exec sleep 300", tasks=tasks_on("a")))
    listener.started(ref("j"))
    engine.interrupt("a", notice_ms=0, absence_ms=60_000)
    engine.stop(ref("j"), 0)
    until("it has ended", lambda: (folder_of(stand, ref("j")) / "ended").exists())
    again = stand.open([ref("j")])
    again.ended(ref("j"))
    kinds = [type(one) for one in again.heard]
    assert kinds.index(NodeLostReported) < kinds.index(TasksEnded)
