"""``bursar simulate spot`` as it is typed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bursar.cli.exit_codes import FAILED, OK, WRONG_USAGE
from bursar.cli.main import main
from tests.tidy.source import ROOT

FOLDER = Path(os.environ.get("BURSAR_TRACES") or ROOT.parent / "shared" / "traces")


def test_a_folder_without_traces_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "spot", "--traces", str(tmp_path)]) == FAILED
    told = capsys.readouterr().err
    assert str(tmp_path) in told and "BURSAR_TRACES" in told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--deadline-hours", "40"], "do not fit in the 40 h"),
        (["--policy", "fastest"], "'fastest' is not a rule"),
        (["--part", "zone"], "'zone' is not a part"),
    ],
)
def test_a_wrong_wish_is_told(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "spot", *words]) == FAILED
    assert said in capsys.readouterr().err


def test_hours_must_be_hours(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["simulate", "spot", "--job-hours", "-1"])
    assert stopped.value.code == WRONG_USAGE
    assert "number of hours" in capsys.readouterr().err


def test_other_traces_still_need_a_fleet(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "trace.csv"]) == WRONG_USAGE
    assert "--fleet FILE" in capsys.readouterr().err


def test_rules_stand_side_by_side_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    if not (FOLDER / "spot_availability_skypilot").is_dir():
        pytest.skip(f"no spot traces in {FOLDER}; set BURSAR_TRACES to the folder of the traces")
    words = ["simulate", "spot", "--traces", str(FOLDER), "--limit", "1", "-o", "json"]
    assert main([*words, "--policy", "greedy,uniform-progress"]) == OK
    found = json.loads(capsys.readouterr().out)
    assert found["complete"] and len(found["cells"]) == 29 + 7
    for cell in found["cells"]:
        assert list(cell["rules"]) == ["greedy", "uniform-progress", "optimum"]
        assert cell["rules"]["greedy"]["missed_deadlines"] == 0
