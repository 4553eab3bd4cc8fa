"""A meter that was put away and taken up again, at any moment of any story, goes on as if it had not been."""

from __future__ import annotations

import json

import pytest

from bursar.accounting.books import Books
from bursar.accounting.carried_meter import CarriedMeter, carry_meter, resume_meter
from bursar.accounting.ledger import Ledger
from bursar.model.plain_values import from_plain, to_plain
from tests.accounting.scene import ms
from tests.accounting.test_meter import STORIES


@pytest.mark.parametrize("sentence", STORIES)
def test_every_story_can_be_cut_anywhere(sentence: str) -> None:
    scene, until, _ = STORIES[sentence]
    whole = scene.books(until)
    for cut in range(len(scene.log) + 1):
        first = Ledger()
        for event in scene.log[:cut]:
            first.apply(event)
        text = json.dumps(to_plain(CarriedMeter)(carry_meter(first.meter)))
        books = Books().restore(first.books.hour_rows(), first.books.job_rows())
        second = resume_meter(from_plain(CarriedMeter)(json.loads(text)), books.post)
        second.apply_all(scene.log[cut:])
        second.close(ms(until))
        assert books.hour_rows() == whole.hour_rows() and books.job_rows() == whole.job_rows()
