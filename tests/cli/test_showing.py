"""Tables, untrusted text, amounts and times."""

from __future__ import annotations

import argparse

import pytest

from bursar.cli.commands.jobs.wait import own_code
from bursar.cli.terminal.format import at_most, duration, exit_text, timestamp
from bursar.cli.terminal.safe_text import csv_cell, lines, log_lines, one_line
from bursar.cli.terminal.table import Column, TableSpec, print_rows

LISTING = TableSpec(
    columns=(
        Column("ID", lambda row: row["id"], whole=True),
        Column("NAME", lambda row: row["name"]),
        Column("MORE", lambda row: row["more"], only_wide=True),
    ),
    keys=("id", "name", "more"),
    nothing="nothing here.",
)
NASTY = {"id": "j-1", "name": "[red]x[/red]\x1b]0;t\x07\n\u202e", "more": {"a": [1]}}


def shown(
    capsys: pytest.CaptureFixture[str], form: str, *rows: dict[str, object]
) -> tuple[str, str]:
    print_rows(argparse.Namespace(output=form, no_color=False), LISTING, list(rows))
    return capsys.readouterr()


def test_a_table_shows_text_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = shown(capsys, "table", NASTY)
    assert out.splitlines() == ["ID   NAME", r"j-1  [red]x[/red]\x1b]0;t\x07\x0a\u202e"]
    assert "MORE" in shown(capsys, "wide", NASTY)[0]


def test_an_empty_table_is_a_note_and_an_empty_list_is_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert shown(capsys, "table") == ("", "nothing here.\n")
    assert shown(capsys, "json") == ("[]\n", "")
    assert shown(capsys, "yaml") == ("[]\n", "")
    assert shown(capsys, "csv") == ("id,name,more\n", "")


def test_programs_get_every_key_in_a_fixed_order(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = shown(capsys, "csv", {"more": None, "name": "=1+1", "id": True, "new": 1})
    assert out == "id,name,more\ntrue,'=1+1,\n"
    out, _ = shown(capsys, "json", {"name": "ä\x9b", "id": 1})
    assert out.isascii() and '"more": null' in out


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain ä 漢", "plain ä 漢"),
        ("\x1b]52;c;YQ==\x07", r"\x1b]52;c;YQ==\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("a\u2066b\u200f", r"a\u2066b\u200f"),
        ("a\tb", r"a\x09b"),
        ("\ud800", r"\ud800"),
    ],
)
def test_a_cell_is_one_line_without_control_characters(text: str, safe: str) -> None:
    assert one_line(text) == safe


def test_messages_and_logs_keep_their_lines() -> None:
    assert lines("a\n\tb\x1b[31mc\x1b[0m\rd") == "a\n\tbc\\x0dd"
    assert log_lines("10 %\r20 %\r\ndone\n") == "10 %\n20 %\ndone\n"


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM", "\t=1"])
def test_a_spreadsheet_reads_text_as_text(text: str) -> None:
    assert csv_cell(text) == f"'{text}"


def test_money_has_its_currency() -> None:
    assert at_most(12_400_000, 74_400_000) == "$12.40/h x <= 6 h = <= $74.40"
    assert at_most(1_000_000, 500_000) == "$1.00/h x <= 30 min = <= $0.50"
    assert at_most(0, 0) == "$0.00/h"


def test_times_have_their_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert timestamp(0) == "1970-01-01 09:00:00 JST"
    finally:
        monkeypatch.undo()
        time.tzset()
    assert timestamp(None) == "-"
    assert duration(3_725_999) == "1 h 2 min"
    assert duration(999) == "0 s"


def test_the_end_of_a_job() -> None:
    job = {"ended_at_ms": 1, "exit_code": 3, "exit_signal": None, "exit_detail": ""}
    assert exit_text(job) == "3:0"
    assert exit_text({**job, "exit_code": None, "exit_signal": 9, "exit_detail": "x"}) == "0:9 x"
    assert exit_text({**job, "ended_at_ms": None}) == "-"
    assert (own_code(3, None), own_code(None, 9), own_code(None, None)) == (3, 137, 100)
