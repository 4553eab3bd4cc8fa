"""``python -m studies.spot`` as it is typed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bursar.cli.exit_codes import FAILED, OK
from studies import spot
from tests.tidy.source import ROOT

FOLDER = Path(os.environ.get("BURSAR_TRACES") or ROOT.parent / "shared" / "traces")


def test_a_folder_without_traces_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spot.main(["--traces", str(tmp_path)]) == FAILED
    told = capsys.readouterr().err
    assert str(tmp_path) in told and "BURSAR_TRACES" in told


def test_without_a_folder_it_says_where_to_name_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("BURSAR_TRACES", raising=False)
    assert spot.main([]) == FAILED
    assert "--traces" in capsys.readouterr().err


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
    assert spot.main(["--traces", str(FOLDER), *words]) == FAILED
    assert said in capsys.readouterr().err


def test_rules_stand_side_by_side_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    if not (FOLDER / "spot_availability_skypilot").is_dir():
        pytest.skip(f"no spot traces in {FOLDER}; set BURSAR_TRACES to the folder of the traces")
    words = ["--traces", str(FOLDER), "--limit", "1", "-o", "json"]
    assert spot.main([*words, "--policy", "greedy,uniform-progress"]) == OK
    found = json.loads(capsys.readouterr().out)
    assert found["complete"] and len(found["cells"]) == 29 + 7
    for cell in found["cells"]:
        assert list(cell["rules"]) == ["greedy", "uniform-progress", "optimum"]
        assert cell["rules"]["greedy"]["missed_deadlines"] == 0
