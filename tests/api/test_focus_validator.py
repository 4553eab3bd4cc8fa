"""The FOCUS export before the FinOps Foundation's own validator (``focus-validator``), against FOCUS 1.2.

It runs in an environment of its own: it needs Python 3.12 and older packages than ours.
``tools/install-focus`` makes it; ``BURSAR_FOCUS_PYTHON`` names another one.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from bursar.accounting.reports.group_by import write_day
from bursar.model.units import DAY_MS
from tests.api.cost_history import begin_ms, today_ms, write_history
from tests.api.scene import open_scene

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
INSTALL = ROOT / "tools" / "install-focus"
MODEL = "1.2.0.1"
SUPPORTED = (
    *("ACCOUNT_NAMING_SUPPORTED", "AVAILABILITY_ZONE_SUPPORTED", "REGION_SUPPORTED"),
    *("MULTIPLE_PRICING_CATEGORIES_SUPPORTED", "USAGE_MEASUREMENT_SUPPORTED"),
    *("SUB_ACCOUNT_SUPPORTED", "BILLING_BASED_ON_PROVISIONED_RESOURCES_SUPPORTED"),
    *("RESOURCE_TYPE_ASSIGNMENT_SUPPORTED", "TAGGING_SUPPORTED"),
)
"""What we claim to have. Unit prices, price lists, commitments and reservations are not among it."""
EITHER = {"InvoiceId-C-005-C"}
"""One of two rules of which the standard asks for either: with an invoice, or, as here, without one."""


def files(folder: Path) -> dict[str, Path]:
    """The export of two weeks with a bill in them, in both forms."""
    write_history(folder)
    found = {}
    with open_scene(folder) as scene:
        bill = {
            "pool": "a100",
            "from_day": write_day(begin_ms()),
            "to_day": write_day(begin_ms() + DAY_MS),
            "billed_micro_usd": 400_000_000,
        }
        assert scene.admin.post("/v1/cost/bills", bill).status == 201
        days = f"from={write_day(begin_ms())}&to={write_day(today_ms())}"
        for form, name in (("focus", "focus.csv"), ("focus-parquet", "focus.parquet")):
            told = scene.admin.get(f"/v1/cost/export?format={form}&{days}")
            assert told.status == 200, told.body
            found[form] = folder / name
            found[form].write_bytes(told.body)
    return found


def find_python() -> str:
    """The interpreter that has the validator, whether it is there or not."""
    chosen = os.environ.get("BURSAR_FOCUS_PYTHON")
    asked = [str(INSTALL), "--path"]
    return chosen or subprocess.check_output(asked, text=True).strip()


def validate(python: str, path: Path) -> str:
    """What it says. It looks for its own files from the folder it is started in."""
    asked = "import focus_validator; print(focus_validator.__path__[0])"
    told = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True)
    seat = path.parent / "seat"
    seat.mkdir(exist_ok=True)
    link = seat / "focus_validator"
    if not link.exists():
        link.symlink_to(told.stdout.strip())
    words: list[str] = [
        *(python, "-c", "from focus_validator.main import main; main()"),
        *("--data-file", str(path), "--validate-version", MODEL, "--block-download"),
        *("--focus-dataset", "CostAndUsage", "--applicability-criteria", ",".join(SUPPORTED)),
    ]
    ran = subprocess.run(words, cwd=seat, capture_output=True, text=True, timeout=300)
    return ran.stdout + ran.stderr


def test_the_public_validator_finds_nothing_wrong(tmp_path: Path) -> None:
    python = find_python()
    if not Path(python).exists():
        pytest.skip(f"no validator: {INSTALL.relative_to(ROOT)} installs it as {python}")
    for form, path in files(tmp_path).items():
        told = validate(python, path)
        counts = re.search(r"Total: (\d+) \| Pass: (\d+) \| Fail: (\d+)", told)
        assert counts is not None, told[-2_000:]
        failed = set(re.findall(r"^. (\S+): FAIL", told, re.M))
        assert failed == EITHER, (form, failed)
        assert int(counts[2]) > 200 and int(counts[3]) == 1
        assert re.search(r"InvoiceId-C-003-C: PASS", told), "either of the two rules holds"
