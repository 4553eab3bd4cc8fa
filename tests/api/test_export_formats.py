"""The fast FOCUS writer writes the same bytes as the csv module, for all names."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pytest

from bursar.accounting.ledger.entry import AccountKind
from bursar.accounting.reports.focus import COLUMNS, DECIMALS, Issuer, Value, focus_rows
from bursar.accounting.reports.line_item import LineItem
from bursar.api.endpoints.money.export_formats import write_focus
from bursar.model.units import DAY_MS, GIB_MIB, HOUR_MS, MILLI
from tests.support import fleet_of, pool

TEXTS = {
    "a plain word": "train-7",
    "nothing": "",
    "a comma": "a,b",
    "quotes": 'the "best" one',
    "a line break": "one\ntwo\r\nthree",
    "spaces at both ends": " train ",
    "format directives": "100%s %d %% {0}",
    "a formula": "=1+1",
    "a sign": "-train",
    "not ASCII": "Größe 模型",
    "half a character": "x\udc80y",
}


def item(text: str, day: int = 0, **named: Any) -> LineItem:
    fields = LineItem(
        day_ms=day * DAY_MS,
        kind=AccountKind.USAGE,
        pool="owned",
        gpu_model="h100-80gb",
        market="owned",
        team=text,
        project=text,
        queue=text,
        user=text,
        job_id=text,
        job_name=text,
        labels={text: text} if text else {},
        micro_usd=1_234_567,
        gpu_milli_ms=MILLI * HOUR_MS // 3,
        cpu_milli_ms=MILLI * HOUR_MS,
        memory_mib_ms=GIB_MIB * HOUR_MS,
    )
    return fields._replace(**named)


def write_with_csv(items: list[LineItem], issuer: Issuer) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in focus_rows(items, issuer):
        writer.writerow([_cell(name, row[name]) for name in COLUMNS])
    return text.getvalue().encode("utf-8", "backslashreplace")


def _cell(name: str, value: Value) -> str:
    if not value:
        return ""
    if not isinstance(value, str):
        return json.dumps(value, separators=(",", ":"))
    return f"'{value}" if name not in DECIMALS and value[0] in "=+-@\t\r" else value


@pytest.mark.parametrize("case", TEXTS)
def test_focus_equals_the_output_of_the_csv_module(case: str) -> None:
    text = TEXTS[case]
    region = {"topology.kubernetes.io/region": text}
    owned = replace(fleet_of(pool("owned")).pools[0], labels=region)
    issuer = Issuer(organisation=text, pools={"owned": owned})
    items = [
        item(text),
        item(text, micro_usd=-5, gpu_milli_ms=0),
        item("other", day=1, user=text),
        item(text, day=1, kind=AccountKind.ADJUSTMENT, job_id=""),
        item("", day=1, kind=AccountKind.IDLE, pool=text or "p"),
    ]
    assert write_focus(items, issuer) == write_with_csv(items, issuer)


def test_an_empty_export_has_the_column_names() -> None:
    assert write_focus([], Issuer(organisation="acme")).decode() == ",".join(COLUMNS) + "\n"
