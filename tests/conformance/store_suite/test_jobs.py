"""The projected tables agree with the events."""

from __future__ import annotations

import pytest

from bursar.model import event as ev
from bursar.model.jobs.job import JobState
from bursar.model.jobs.job_labels import JobLabel
from bursar.ports import AttemptRow, JobFilter, LeaderLease
from bursar.store.rebuild import differences, rebuild
from bursar.store.sql_store import SqlStore
from tests.store import facts


def state_of(store: SqlStore, job_id: str) -> JobState:
    row = store.job(job_id)
    assert row is not None
    return row.state


def test_a_job_from_submission_to_success(store: SqlStore, lead: LeaderLease) -> None:
    origin = facts.origin(owner="ann", labels={"team": "vision"})
    store.append(facts.batch(facts.submitted("j-1"), origins={"j-1": origin}), lead)
    row = store.job("j-1")
    assert row is not None
    assert (row.state, row.owner, row.priority) == (JobState.QUEUED, "ann", 10)
    assert row.labels == {"team": "vision"} and row.spec == facts.spec("j-1")
    assert row.placement is None and row.submitted_at_ms == 1_000
    store.append(facts.batch(facts.assigned("j-1"), facts.started("j-1"), facts.saved("j-1")), lead)
    row = store.job("j-1")
    assert row is not None and row.state is JobState.RUNNING
    assert row.placement == facts.placement("n1") and row.started_at_ms == 3_000
    store.append(facts.batch(facts.succeeded("j-1")), lead)
    row = store.job("j-1")
    assert row is not None and row.state is JobState.SUCCEEDED
    assert (row.placement, row.ended_at_ms, row.exit_code) == (None, 4_000, 0)
    assert store.attempts("j-1") == [
        AttemptRow(
            job_id="j-1",
            attempt=1,
            placement=facts.placement("n1"),
            assigned_at_ms=2_000,
            started_at_ms=3_000,
            ended_at_ms=4_000,
            outcome="AttemptSucceeded",
            exit_code=0,
            exit_signal=None,
            exit_detail="",
            saved_at_ms=3_500,
        )
    ]
    assert len(store.events_of("j-1")) == 5


def test_the_members_of_an_array_are_found_by_its_id(store: SqlStore, lead: LeaderLease) -> None:
    shared, other = facts.origin(), facts.origin()
    members = [f"j-a[{number}]" for number in range(12)]
    alone = ["j-b", "j-a2[0]"]
    origins = {**dict.fromkeys(members, shared), **dict.fromkeys(alone, other)}
    store.append(facts.batch(*map(facts.submitted, origins), origins=origins), lead)
    store.append(facts.batch(facts.assigned("j-a[3]"), facts.succeeded("j-a[3]")), lead)
    states = dict(store.members("j-a"))
    assert list(states) == members
    assert states["j-a[3]"] is JobState.SUCCEEDED and states["j-a[11]"] is JobState.QUEUED
    assert [job_id for job_id, _ in store.members("j-a2")] == ["j-a2[0]"]
    assert store.members("j-b") == store.members("j-") == store.members("j-a[0]") == []


def test_a_failed_job_is_retried_while_retries_remain(store: SqlStore, lead: LeaderLease) -> None:
    store.append(facts.batch(facts.submitted("j-1", retries=1), facts.assigned("j-1")), lead)
    store.append(facts.batch(facts.failed("j-1")), lead)
    row = store.job("j-1")
    assert row is not None and (row.state, row.failures) == (JobState.QUEUED, 1)
    assert (row.exit_code, row.exit_detail, row.ended_at_ms) == (3, "out of memory", None)
    store.append(facts.batch(facts.assigned("j-1", 2), facts.failed("j-1", 2)), lead)
    row = store.job("j-1")
    assert row is not None and (row.state, row.failures) == (JobState.FAILED, 2)
    assert [one.outcome for one in store.attempts("j-1")] == ["AttemptFailed"] * 2


def test_a_report_about_an_older_attempt_changes_nothing(
    store: SqlStore, lead: LeaderLease
) -> None:
    store.append(facts.batch(facts.submitted("j-1"), facts.assigned("j-1")), lead)
    store.append(facts.batch(facts.preempted("j-1"), facts.assigned("j-1", 2)), lead)
    before = store.job("j-1"), store.attempts("j-1")
    store.append(facts.batch(facts.succeeded("j-1", 1), facts.started("j-1", 1)), lead)
    assert (store.job("j-1"), store.attempts("j-1")) == before
    assert before[0] is not None and before[0].preemptions == 1


def test_a_lost_node_ends_its_attempts(store: SqlStore, lead: LeaderLease) -> None:
    jobs = ["j-1", "j-2", "j-3"]
    store.append(facts.batch(*(facts.submitted(job_id) for job_id in jobs)), lead)
    store.append(
        facts.batch(
            facts.assigned("j-1", node="n1"),
            facts.assigned("j-2", node="n10"),
            facts.assigned("j-3", node="N1"),
        ),
        lead,
    )
    lost = ev.NodeLost(at_ms=9_000, node="n1")
    store.append(facts.batch(facts.cancelled("j-3"), lost), lead)
    assert [state_of(store, job_id) for job_id in jobs] == ["queued", "starting", "cancelling"]
    (attempt,) = store.attempts("j-1")
    assert (attempt.outcome, attempt.exit_detail) == ("NodeLost", "node n1 was lost")
    assert lost in [one.event for one in store.events_of("j-1")]
    assert lost not in [one.event for one in store.events_of("j-2")]


def test_a_lost_node_ends_attempts_of_the_same_batch(store: SqlStore, lead: LeaderLease) -> None:
    lost = ev.NodeLost(at_ms=9_000, node="n1")
    store.append(facts.batch(facts.submitted("j-1"), facts.assigned("j-1"), lost), lead)
    assert state_of(store, "j-1") is JobState.QUEUED
    assert differences(store) == []


def test_a_job_waits_for_its_dependencies(store: SqlStore, lead: LeaderLease) -> None:
    store.append(facts.batch(facts.submitted("j-1"), facts.submitted("j-2")), lead)
    last = facts.submitted("j-3", depends_on=("j-1", "j-2"))
    gone = facts.submitted("j-4", depends_on=("j-1",))
    store.append(facts.batch(last, gone), lead)
    assert state_of(store, "j-3") is JobState.BLOCKED
    store.append(facts.batch(facts.assigned("j-1"), facts.succeeded("j-1")), lead)
    assert (state_of(store, "j-3"), state_of(store, "j-4")) == ("blocked", "queued")
    done = (
        facts.assigned("j-2"),
        facts.succeeded("j-2"),
        facts.submitted("j-5", depends_on=("j-2",)),
    )
    store.append(facts.batch(*done), lead)
    assert (state_of(store, "j-3"), state_of(store, "j-5")) == ("queued", "queued")
    store.append(facts.batch(facts.submitted("j-6", depends_on=("j-3",))), lead)
    store.append(facts.batch(facts.cancelled("j-6"), facts.cancelled("j-6")), lead)
    assert state_of(store, "j-6") is JobState.CANCELLED
    assert differences(store) == []


def test_cancelling_a_running_job_waits_for_its_end(store: SqlStore, lead: LeaderLease) -> None:
    store.append(facts.batch(facts.submitted("j-1"), facts.assigned("j-1")), lead)
    store.append(facts.batch(facts.cancelled("j-1")), lead)
    assert state_of(store, "j-1") is JobState.CANCELLING
    store.append(facts.batch(facts.preempted("j-1", at_ms=7_000)), lead)
    row = store.job("j-1")
    assert row is not None and (row.state, row.ended_at_ms) == (JobState.CANCELLED, 7_000)
    assert row.exit_signal == 15


# -- lists -------------------------------------------------------------------------------------------


@pytest.fixture
def listed(store: SqlStore, lead: LeaderLease) -> SqlStore:
    ann = facts.origin("ann", {"team": "vision"})
    bob = facts.origin("bob", {"team": "speech", "a": "b"})
    events = [
        facts.submitted("j-1", 1_000, queue="red"),
        facts.submitted("j-2", 2_000, queue="red", name="train"),
        facts.submitted("j-3", 2_000, queue="blue"),
        facts.submitted("J-4", 2_000, queue="blue", name="train"),
        facts.assigned("j-3"),
    ]
    origins = {"j-1": ann, "j-2": bob, "j-3": ann, "J-4": ann}
    store.append(facts.batch(*events, origins=origins), lead)
    return store


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (JobFilter(), ["j-3", "j-2", "J-4", "j-1"]),
        (JobFilter(queues=frozenset({"red"})), ["j-2", "j-1"]),
        (JobFilter(queues=frozenset()), []),
        (JobFilter(states=frozenset({JobState.STARTING})), ["j-3"]),
        (JobFilter(states=frozenset({JobState.STARTING, JobState.QUEUED}), limit=1), ["j-3"]),
        (JobFilter(owner="bob"), ["j-2"]),
        (JobFilter(name="train"), ["j-2", "J-4"]),
        (JobFilter(label=("team", "vision")), ["j-3", "J-4", "j-1"]),
        (JobFilter(label=("team", "speech"), owner="ann"), []),
        (JobFilter(after=(2_000, "j-3"), limit=2), ["j-2", "J-4"]),
        (JobFilter(after=(2_000, "J-4")), ["j-1"]),
        (JobFilter(after=(1_000, "j-1")), []),
        (JobFilter(name="' OR 1=1 --"), []),
    ],
)
def test_jobs_are_listed_newest_first(
    listed: SqlStore, wanted: JobFilter, expected: list[str]
) -> None:
    assert [row.id for row in listed.jobs(wanted)] == expected


def test_jobs_are_counted(listed: SqlStore) -> None:
    assert listed.count_jobs(None) == {JobState.QUEUED: 3, JobState.STARTING: 1}
    assert listed.count_jobs(frozenset({"blue"})) == {JobState.QUEUED: 1, JobState.STARTING: 1}
    assert listed.count_jobs(frozenset()) == {}


# -- origins and secrets -----------------------------------------------------------------------------


def count_secrets(store: SqlStore) -> int:
    with store.reading() as connection:
        return int(connection.exec_driver_sql("SELECT count(*) FROM secrets").scalar_one())


def test_secrets_are_deleted_when_the_job_has_ended(store: SqlStore, lead: LeaderLease) -> None:
    origin = facts.origin(secrets={"TOKEN": "s3cret"})
    store.append(facts.batch(facts.submitted("j-1"), origins={"j-1": origin}), lead)
    assert store.origin("j-1") == origin
    store.append(facts.batch(facts.cancelled("j-1")), lead)
    assert store.origin("j-1") == facts.origin()
    assert count_secrets(store) == 0


def test_labels_of_many_jobs_are_read_in_chunks(store: SqlStore, lead: LeaderLease) -> None:
    """More jobs than the parameters of one query."""
    mine, other = facts.origin(owner="ann", labels={"team": "vision"}), facts.origin(owner="bob")
    names = [f"j-{number}" for number in range(1_200)]
    origins = {name: mine if number % 2 else other for number, name in enumerate(names)}
    store.append(facts.batch(*map(facts.submitted, names), origins=origins), lead)
    labels = store.tags([*names, "j-none"])
    assert sorted(labels) == sorted(names)
    assert labels["j-1"] == JobLabel(
        owner="ann", name=facts.spec("j-1").name, labels={"team": "vision"}
    )
    assert labels["j-2"].owner == "bob" and store.tags([]) == {}


def test_the_secrets_of_an_array_stay_until_its_last_job_has_ended(
    store: SqlStore, lead: LeaderLease
) -> None:
    origin = facts.origin(secrets={"TOKEN": "s3cret"})
    members = [f"j-1[{number}]" for number in range(3)]
    origins = dict.fromkeys(members, origin)
    store.append(facts.batch(*map(facts.submitted, members), origins=origins), lead)
    store.append(facts.batch(facts.cancelled(members[0]), facts.cancelled(members[2])), lead)
    assert store.origin(members[0]) == facts.origin()
    assert store.origin(members[1]) == origin
    assert differences(store) == []
    store.append(facts.batch(facts.cancelled(members[1])), lead)
    assert count_secrets(store) == 0
    with store.reading() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM origins").scalar_one() == 1


# -- rebuilding --------------------------------------------------------------------------------------

DAMAGE = {
    "jobs": "UPDATE jobs SET state = 'failed', exit_code = 7 WHERE id = 'j-3'",
    "attempts": "DELETE FROM attempts",
    "waits": "INSERT INTO waits (dependency, job_id) VALUES ('j-1', 'j-2')",
    "job_counts": "UPDATE job_counts SET jobs = jobs + 1",
    "secrets": "UPDATE secrets SET jobs_alive = 9",
}


@pytest.mark.parametrize("table", sorted(DAMAGE))
def test_damaged_tables_are_detected_and_rebuilt(
    listed: SqlStore, lead: LeaderLease, table: str
) -> None:
    origin = facts.origin(secrets={"TOKEN": "s3cret"})
    new_events = [facts.submitted("j-5"), facts.submitted("j-6"), facts.cancelled("j-6")]
    listed.append(facts.batch(*new_events, origins={"j-5": origin, "j-6": origin}), lead)
    assert differences(listed) == []
    listed.write(lambda connection: connection.exec_driver_sql(DAMAGE[table]), lead)
    changed = differences(listed)
    assert {one.table for one in changed} == {table}
    assert all(str(one).startswith(table) for one in changed)
    assert rebuild(listed, lead) == listed.last_sequence() == 8
    assert differences(listed) == []
    assert listed.origin("j-5") == origin


def test_a_difference_shows_the_expected_value(listed: SqlStore, lead: LeaderLease) -> None:
    listed.write(lambda connection: connection.exec_driver_sql(DAMAGE["jobs"]), lead)
    text = "; ".join(str(one) for one in differences(listed))
    assert "jobs j-3: <JobState.FAILED: 'failed'> should be <JobState.STARTING" in text
