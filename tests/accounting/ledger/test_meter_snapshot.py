"""A meter restored from a snapshot, taken at any time of any scenario, continues as if never stopped."""

from __future__ import annotations

import pytest

from bursar.accounting.ledger.books import Books
from bursar.accounting.ledger.ledger import Ledger
from bursar.accounting.ledger.meter_snapshot import (
    MeterSnapshot,
    meter_from_snapshot,
    meter_to_snapshot,
)
from bursar.codec import from_text, to_text
from tests.accounting.ledger.test_meter import SCENARIOS
from tests.accounting.scene import ms


@pytest.mark.parametrize("sentence", SCENARIOS)
def test_every_scenario_can_be_resumed_after_any_event(sentence: str) -> None:
    scene, until, _ = SCENARIOS[sentence]
    whole = scene.books(until)
    for cut in range(len(scene.log) + 1):
        first = Ledger()
        for event in scene.log[:cut]:
            first.apply(event)
        text = to_text(meter_to_snapshot(first.meter))
        books = Books().restore(first.books.to_snapshot())
        second = meter_from_snapshot(from_text(MeterSnapshot, text), books.post)
        for event in scene.log[cut:]:
            second.apply(event)
        second.close(ms(until))
        assert books.hour_rows() == whole.hour_rows() and books.job_rows() == whole.job_rows()
