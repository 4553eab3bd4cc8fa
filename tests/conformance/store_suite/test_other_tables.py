"""Acknowledgements, tokens, progress and the audit log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bursar.model.engine_report import Progressed
from bursar.model.errors import BrokenInvariant
from bursar.model.tenants.identity import Permission, Role, Token
from bursar.ports import Acknowledgement, Batch, JobProgress, LeaderLease
from bursar.store.integrity import integrity
from bursar.store.sql_store import SqlStore
from tests.store import facts

TOKEN = Token(
    id="t1",
    secret_sha256="ab" * 32,
    user="ann",
    role=Role.MEMBER,
    tenant="research",
    scopes=(Permission.READ_JOBS, Permission.WRITE_JOBS),
    created_at_ms=5,
    created_by="root",
)
ACKNOWLEDGEMENT = Acknowledgement(
    tenant="a", key="k", request_sha256="00", answer='{"id":"j-1"}', at_ms=5
)


def test_an_acknowledgement_is_stored_once(store: SqlStore, lead: LeaderLease) -> None:
    store.append(Batch(acknowledgements=(ACKNOWLEDGEMENT,)), lead)
    assert store.acknowledgement("a", "k") == ACKNOWLEDGEMENT
    assert store.acknowledgement("b", "k") is None
    with pytest.raises(BrokenInvariant):
        store.append(
            Batch(events=facts.new_jobs(1).events, acknowledgements=(ACKNOWLEDGEMENT,)), lead
        )
    assert store.last_sequence() == 0


def test_tokens_are_replaced_by_their_newest_version(store: SqlStore, lead: LeaderLease) -> None:
    other = replace(TOKEN, id="t0")
    store.append(Batch(tokens=(TOKEN, other)), lead)
    assert store.tokens() == [other, TOKEN]
    revoked = replace(TOKEN, revoked_at_ms=9)
    store.append(Batch(tokens=(revoked,)), lead)
    assert store.tokens() == [other, revoked]


def test_only_the_newest_progress_is_stored_and_not_in_the_log(
    store: SqlStore, lead: LeaderLease
) -> None:
    first, second = "j-first", "j-second"
    last = store.append(facts.batch(facts.submitted(first), facts.submitted(second)), lead)

    def report_progress(
        attempt: int, step: int, at_ms: int, total: int | None = 1_000
    ) -> JobProgress | None:
        report = Progressed(job_id=first, attempt=attempt, at_ms=at_ms, step=step, total=total)
        store.append(Batch(progressed=(report,)), lead)
        row = store.job(first)
        assert row is not None
        return row.progress

    first_report = JobProgress(
        attempt=1, step=100, total=1_000, at_ms=10_000, since_step=100, since_ms=10_000
    )
    assert report_progress(1, 100, 10_000) == first_report
    assert first_report.expected_end_ms is None and first_report.permille == 100
    later = report_progress(1, 250, 25_000)
    assert later == replace(first_report, step=250, at_ms=25_000)
    assert later.expected_end_ms == 25_000 + 750 * 100 and later.permille == 250
    restarted = report_progress(1, 20, 30_000)
    assert restarted == replace(first_report, step=20, at_ms=30_000, since_step=20, since_ms=30_000)
    second_attempt = report_progress(2, 40, 50_000, total=None)
    assert (
        second_attempt is not None
        and second_attempt.expected_end_ms is None
        and second_attempt.permille is None
    )
    assert (second_attempt.attempt, second_attempt.since_step, second_attempt.since_ms) == (
        2,
        40,
        50_000,
    )
    other = store.job(second)
    assert other is not None and other.progress is None
    assert store.last_sequence() == last and integrity(store) == []


def test_the_audit_log_is_read_newest_first(store: SqlStore, lead: LeaderLease) -> None:
    entries = [facts.audit_entry(f"act {number}", "odd \0 \ud800") for number in range(5)]
    store.append(Batch(audit=tuple(entries[:2])), lead)
    store.append(Batch(audit=tuple(entries[2:])), lead)
    newest = store.audit(2)
    assert [(number, entry.action) for number, entry in newest] == [(5, "act 4"), (4, "act 3")]
    assert [number for number, _ in store.audit(10, before=4)] == [3, 2, 1]
    assert store.verify_audit() == []


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        ("UPDATE audit SET outcome = 'denied' WHERE number = 3", "row 3 was changed"),
        ("DELETE FROM audit WHERE number = 3", "row 3 is missing"),
        ("DELETE FROM audit WHERE number = 5", "ends at row 4, but 5 rows were written"),
        ("DELETE FROM audit", "ends at row 0"),
    ],
)
def test_a_damaged_audit_log_is_detected(
    store: SqlStore, lead: LeaderLease, damage: str, expected: str
) -> None:
    store.append(Batch(audit=tuple(facts.audit_entry(str(one)) for one in range(5))), lead)
    store.write(lambda connection: connection.exec_driver_sql(damage), lead)
    (problem,) = store.verify_audit()
    assert expected in problem
    assert integrity(store) == [problem]


def test_gaps_in_the_log_are_detected(store: SqlStore, lead: LeaderLease) -> None:
    store.append(facts.new_jobs(5), lead)
    store.write(
        lambda connection: connection.exec_driver_sql("DELETE FROM events WHERE sequence = 3"), lead
    )
    assert integrity(store) == ["the log has gaps: 4 events are numbered from 1 to 5"]
    store.write(
        lambda connection: connection.exec_driver_sql("DELETE FROM events WHERE sequence > 3"), lead
    )
    assert "the log ends at event 2, but 5 were written" in integrity(store)
