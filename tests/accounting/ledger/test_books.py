"""Balances of the books, and how old rows are folded."""

from __future__ import annotations

import json

import pytest

from bursar.accounting.ledger import books as books_module
from bursar.accounting.ledger.books import Books
from bursar.accounting.ledger.entry import QUEUE_KINDS, AccountKind
from bursar.model import event as ev
from bursar.model.fleet.fleet import Market
from bursar.model.units import DAY_MS
from tests.accounting.scene import Scene, gpus, ms
from tests.support import pool
from tests.support.book_views import (
    by_day,
    by_gpu_model,
    by_hour,
    by_job,
    by_market,
    by_pool,
    by_queue,
)

USD = 1_000_000


def two_days() -> Scene:
    scene = Scene(
        pool("a100", usd_per_node_hour=16.0),
        pool("t4", model="t4", gpus=1, market=Market.SPOT, usd_per_node_hour=1.0),
    )
    scene.run("a", gpus(*range(8))).run("b", gpus(0, node="t4-0001"), queue="blue")
    return scene.succeed("a", 30).end(ev.AttemptFailed, "b", at=48)


def test_sums_by_pool_model_market_queue_job_and_day() -> None:
    books = two_days().books(48)
    assert by_pool(books, QUEUE_KINDS) == {"a100": 480 * USD, "t4": 48 * USD}
    assert by_gpu_model(books, QUEUE_KINDS) == {"a100-80gb": 480 * USD, "t4-16gb": 48 * USD}
    assert by_market(books, QUEUE_KINDS) == {"owned": 480 * USD, "spot": 48 * USD}
    assert by_queue(books) == {"blue": 48 * USD, "red": 480 * USD}
    assert by_job(books) == {"a": 480 * USD, "b": 48 * USD}
    assert by_day(books, QUEUE_KINDS) == {0: 408 * USD, DAY_MS: 120 * USD}
    assert books.by_kind() == {
        AccountKind.CAPACITY: -816 * USD,
        AccountKind.IDLE: 288 * USD,
        AccountKind.USAGE: 480 * USD,
        AccountKind.WASTE: 48 * USD,
    }
    assert by_hour(books, {AccountKind.IDLE})[ms(30)] == 16 * USD


def test_folding_retains_days_queues_and_every_sum() -> None:
    books = two_days().books(48)
    before = (
        books.balances(),
        by_day(books, QUEUE_KINDS),
        by_queue(books),
        books.fleet_micro_usd(),
    )
    hours, jobs = len(books.hour_rows()), len(books.job_rows())
    books.fold(DAY_MS + ms(5))
    after = (books.balances(), by_day(books, QUEUE_KINDS), by_queue(books), books.fleet_micro_usd())
    assert after == before and books.trial_balance() == 0
    assert len(books.hour_rows()) < hours and len(books.job_rows()) <= jobs
    assert {row.hour_ms for row in books.hour_rows() if row.hour_ms < DAY_MS} == {0}
    assert {row.job_id for row in books.job_rows() if row.day_ms == 0} == {""}
    assert {row.job_id for row in books.job_rows() if row.day_ms == DAY_MS} == {"a", "b"}


def test_books_restored_from_text_are_equal_and_accept_more_entries() -> None:
    ledger, entries = two_days().ledger(48)
    again = Books().restore(json.loads(json.dumps(ledger.books.to_snapshot())))
    assert again.hour_rows() == ledger.books.hour_rows()
    assert again.job_rows() == ledger.books.job_rows()
    for entry in entries:
        again.post(entry)
    assert by_job(again) == {"a": 960 * USD, "b": 96 * USD} and again.trial_balance() == 0


@pytest.mark.parametrize("batch", [1, 2, 7])
def test_the_batch_size_changes_nothing(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = two_days().books(48)
    monkeypatch.setattr(books_module, "BATCH_ENTRIES", batch)
    again = two_days().books(48)
    assert again.hour_rows() == whole.hour_rows() and again.job_rows() == whole.job_rows()


def test_a_copy_does_not_change_when_more_is_posted() -> None:
    ledger, entries = two_days().ledger(48)
    copied = ledger.books.between(0, 2 * DAY_MS)
    before = (copied.hour_rows(), copied.job_rows())
    for entry in entries:
        ledger.books.post(entry)
    assert by_job(ledger.books)["a"] == 960 * USD
    assert (copied.hour_rows(), copied.job_rows()) == before


def test_days_of_work_without_a_checkpoint_become_waste_hour_by_hour() -> None:
    tasks = (gpus(0), gpus(0, node="a100-0002"))
    scene = Scene(pool("a100", 2, usd_per_node_hour=16.0)).run("a", *tasks)
    books = scene.end(ev.AttemptFailed, "a", at=75.5).books(80)
    assert books.by_kind()[AccountKind.WASTE] == 302 * USD
    assert books.by_kind()[AccountKind.USAGE] == 0
    assert by_hour(books, {AccountKind.WASTE}) == {
        ms(hour): (4 if hour < 75 else 2) * USD for hour in range(76)
    }


def test_books_as_of_now_include_what_is_not_posted_yet() -> None:
    scene = Scene().run("a", gpus(*range(8)))
    ledger, _ = scene.ledger(0)
    assert ledger.books.balances() == {}
    assert ledger.at(ms(0.5)).balances() == {
        "capacity:a100": -8 * USD,
        "usage:red": 8 * USD,
        "idle:a100": 0,
    }
    assert by_job(ledger.at(ms(1.5))) == {"a": 24 * USD}
    assert ledger.books.balances() == {}
