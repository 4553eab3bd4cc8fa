"""The command ``bursar simulate spot``."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from bursar.cli.exit_codes import FAILED, OK, WRONG_USAGE
from bursar.cli.main import main
from tests.tidy.source import ROOT

PAGE = ROOT / "docs" / "spot.md"


def test_a_missing_history_is_reported_with_its_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "spot"]) == FAILED
    error = capsys.readouterr().err
    assert "needs a history" in error and "--history FILE" in error and "at,machines" in error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--on-demand-price", "3", "--deadline-hours", "40"], "do not fit in the 40 h"),
        (["--on-demand-price", "3"], "covers 3.0 h, less than the 60 h"),
        (["--policy", "fastest"], "'fastest' is not a rule"),
        ([], "--on-demand-price USD"),
        (["--history", "absent.csv"], "there is no such file"),
    ],
)
def test_an_invalid_request_is_rejected_with_the_reason(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = tmp_path / "spot.csv"
    history.write_text("at,machines,usd_per_hour\n0,1,1\n3600,0,\n10800,1,1.1\n")
    assert main(["simulate", "spot", "--history", str(history), *options]) == FAILED
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--job-hours", "--on-demand-price"])
def test_amounts_must_be_positive(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["simulate", "spot", option, "-1"])
    assert stopped.value.code == WRONG_USAGE
    assert "'-1' is not a number of" in capsys.readouterr().err


def test_other_traces_still_need_a_fleet(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "trace.csv"]) == WRONG_USAGE
    assert "--fleet FILE" in capsys.readouterr().err


def test_the_example_of_the_page_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    csv, command, shown = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[:3]
    (tmp_path / "spot.csv").write_text(csv)
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command)[1:]) == OK
    assert capsys.readouterr().out == shown


def test_json_has_one_cell_per_pool_and_one_for_all_pools(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = tmp_path / "spot.csv"
    history.write_text("at,pool,machines\n0,a,1\n0,b,1\n7200,a,0\n14400,a,1\n36000,b,0\n")
    words = ["simulate", "spot", "--history", str(history), "--limit", "2", "-o", "json"]
    words += ["--on-demand-price", "3", "--spot-price", "1", "--policy", "greedy"]
    assert main([*words, "--job-hours", "2", "--deadline-hours", "4"]) == OK
    result = json.loads(capsys.readouterr().out)
    assert result["complete"] and [cell["name"] for cell in result["cells"]] == [
        "a",
        "b",
        "all pools",
    ]
    for cell in result["cells"]:
        assert list(cell["rules"]) == ["greedy", "optimum"]
        assert cell["rules"]["greedy"]["missed_deadlines"] == 0
        assert cell["rules"]["greedy"]["jobs"] == 2
