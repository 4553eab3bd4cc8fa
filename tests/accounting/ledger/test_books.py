"""The balances, and what becomes of them when they grow old."""

from __future__ import annotations

import json

import pytest

from bursar.accounting.ledger import books as books_module
from bursar.accounting.ledger.books import Books
from bursar.accounting.ledger.entry import OF_QUEUES, AccountKind
from bursar.model import event as ev
from bursar.model.fleet.fleet import Market
from bursar.model.units import DAY_MS
from tests.accounting.scene import Scene, gpus, ms
from tests.support import pool

USD = 1_000_000


def two_days() -> Scene:
    scene = Scene(
        pool("a100", usd_per_node_hour=16.0),
        pool("t4", model="t4", gpus=1, market=Market.SPOT, usd_per_node_hour=1.0),
    )
    scene.run("a", gpus(*range(8))).run("b", gpus(0, node="t4-0001"), queue="blue")
    return scene.succeed("a", 30).end(ev.AttemptFailed, "b", at=48)


def test_views_by_pool_model_market_queue_job_day_and_owner() -> None:
    books = two_days().books(48)
    assert books.by_pool(OF_QUEUES) == {"a100": 480 * USD, "t4": 48 * USD}
    assert books.by_gpu_model(OF_QUEUES) == {"a100-80gb": 480 * USD, "t4-16gb": 48 * USD}
    assert books.by_market(OF_QUEUES) == {"owned": 480 * USD, "spot": 48 * USD}
    assert books.by_queue() == {"blue": 48 * USD, "red": 480 * USD}
    assert books.by_job() == {"a": 480 * USD, "b": 48 * USD}
    assert books.by_day(OF_QUEUES) == {0: 408 * USD, DAY_MS: 120 * USD}
    assert books.by_owner({"a": "ann", "b": "bob"}.__getitem__) == {
        "ann": 480 * USD,
        "bob": 48 * USD,
    }
    assert books.by_kind() == {
        AccountKind.CAPACITY: -816 * USD,
        AccountKind.IDLE: 288 * USD,
        AccountKind.USAGE: 480 * USD,
        AccountKind.WASTE: 48 * USD,
    }
    assert books.by_hour({AccountKind.IDLE})[ms(30)] == 16 * USD


def test_folding_keeps_days_and_queues_and_every_sum() -> None:
    books = two_days().books(48)
    before = (books.balances(), books.by_day(OF_QUEUES), books.by_queue(), books.fleet_micro_usd())
    hours, jobs = len(books.hour_rows()), len(books.job_rows())
    books.fold(DAY_MS + ms(5))
    after = (books.balances(), books.by_day(OF_QUEUES), books.by_queue(), books.fleet_micro_usd())
    assert after == before and books.trial_balance() == 0
    assert len(books.hour_rows()) < hours and len(books.job_rows()) <= jobs
    assert {row.hour_ms for row in books.hour_rows() if row.hour_ms < DAY_MS} == {0}
    assert {row.job_id for row in books.job_rows() if row.day_ms == 0} == {""}
    assert {row.job_id for row in books.job_rows() if row.day_ms == DAY_MS} == {"a", "b"}


def test_restored_books_are_the_same_and_go_on() -> None:
    books = two_days().books(48)
    again = Books().add_rows(books.hour_rows(), books.job_rows())
    assert again.hour_rows() == books.hour_rows() and again.job_rows() == books.job_rows()


def test_books_written_as_text_are_the_same_and_go_on() -> None:
    ledger, entries = two_days().ledger(48)
    again = Books().restore(json.loads(json.dumps(ledger.books.to_snapshot())))
    assert again.hour_rows() == ledger.books.hour_rows()
    for entry in entries:
        again.post(entry)
    assert again.by_job() == {"a": 960 * USD, "b": 96 * USD} and again.trial_balance() == 0


@pytest.mark.parametrize("most", [1, 2, 7])
def test_how_many_entries_are_added_up_together_changes_nothing(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = two_days().books(48)
    monkeypatch.setattr(books_module, "MOST_FRESH", most)
    again = two_days().books(48)
    assert again.hour_rows() == whole.hour_rows() and again.job_rows() == whole.job_rows()


def test_a_copy_stays_as_it_was_when_more_is_posted() -> None:
    ledger, entries = two_days().ledger(48)
    copied = ledger.books.between(0, 2 * DAY_MS)
    before = (copied.hour_rows(), copied.job_rows())
    for entry in entries:
        ledger.books.post(entry)
    assert ledger.books.by_job()["a"] == 960 * USD
    assert (copied.hour_rows(), copied.job_rows()) == before


def test_days_of_work_without_a_checkpoint_are_lost_to_the_hour() -> None:
    tasks = (gpus(0), gpus(0, node="a100-0002"))
    scene = Scene(pool("a100", 2, usd_per_node_hour=16.0)).run("a", *tasks)
    books = scene.end(ev.AttemptFailed, "a", at=75.5).books(80)
    assert books.by_kind()[AccountKind.WASTE] == 302 * USD
    assert books.by_kind()[AccountKind.USAGE] == 0
    assert books.by_hour({AccountKind.WASTE}) == {
        ms(hour): (4 if hour < 75 else 2) * USD for hour in range(76)
    }


def test_books_as_of_now_have_what_has_come_together() -> None:
    scene = Scene().run("a", gpus(*range(8)))
    ledger, _ = scene.ledger(0)
    assert ledger.books.balances() == {}
    assert ledger.at(ms(0.5)).balances() == {
        "capacity:a100": -8 * USD,
        "usage:red": 8 * USD,
        "idle:a100": 0,
    }
    assert ledger.at(ms(1.5)).by_job() == {"a": 24 * USD}
    assert ledger.books.balances() == {}
