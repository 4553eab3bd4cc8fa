"""A meter that was put away and taken up again, at any moment of any story, goes on as if it had not been."""

from __future__ import annotations

import pytest

from bursar.accounting.ledger.books import Books
from bursar.accounting.ledger.ledger import Ledger
from bursar.accounting.ledger.meter_snapshot import MeterSnapshot, carry_meter, resume_meter
from bursar.codec import from_text, to_text
from tests.accounting.ledger.test_meter import STORIES
from tests.accounting.scene import ms


@pytest.mark.parametrize("sentence", STORIES)
def test_every_story_can_be_cut_anywhere(sentence: str) -> None:
    scene, until, _ = STORIES[sentence]
    whole = scene.books(until)
    for cut in range(len(scene.log) + 1):
        first = Ledger()
        for event in scene.log[:cut]:
            first.apply(event)
        text = to_text(carry_meter(first.meter))
        books = Books().add_rows(first.books.hour_rows(), first.books.job_rows())
        second = resume_meter(from_text(MeterSnapshot, text), books.post)
        second.apply_all(scene.log[cut:])
        second.close(ms(until))
        assert books.hour_rows() == whole.hour_rows() and books.job_rows() == whole.job_rows()
