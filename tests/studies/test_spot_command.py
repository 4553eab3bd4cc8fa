"""The command ``python -m studies.spot``."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bursar.cli.exit_codes import FAILED, OK
from studies import spot
from tests.tidy.source import ROOT

FOLDER = Path(os.environ.get("BURSAR_TRACES") or ROOT.parent / "shared" / "traces")


def test_a_folder_without_traces_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spot.main(["--traces", str(tmp_path)]) == FAILED
    error = capsys.readouterr().err
    assert str(tmp_path) in error and "BURSAR_TRACES" in error


def test_without_a_folder_the_error_names_the_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("BURSAR_TRACES", raising=False)
    assert spot.main([]) == FAILED
    assert "--traces" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--deadline-hours", "40"], "do not fit in the 40 h"),
        (["--policy", "fastest"], "'fastest' is not a rule"),
        (["--part", "zone"], "'zone' is not a part"),
    ],
)
def test_an_invalid_option_is_reported(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spot.main(["--traces", str(FOLDER), *options]) == FAILED
    assert message in capsys.readouterr().err


def test_json_compares_the_rules(capsys: pytest.CaptureFixture[str]) -> None:
    if not (FOLDER / "spot_availability_skypilot").is_dir():
        pytest.skip(f"no spot traces in {FOLDER}; set BURSAR_TRACES to the folder of the traces")
    options = ["--traces", str(FOLDER), "--limit", "1", "-o", "json"]
    assert spot.main([*options, "--policy", "greedy,uniform-progress"]) == OK
    found = json.loads(capsys.readouterr().out)
    assert found["complete"] and len(found["cells"]) == 29 + 7
    for cell in found["cells"]:
        assert list(cell["rules"]) == ["greedy", "uniform-progress", "optimum"]
        assert cell["rules"]["greedy"]["missed_deadlines"] == 0
