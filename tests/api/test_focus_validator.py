"""The FOCUS export passes the FinOps Foundation's validator (``focus-validator``) for FOCUS 1.2.

The validator needs Python 3.12 and older packages than ours, so it runs in a separate environment.
``tools/install-focus`` creates it; ``BURSAR_FOCUS_PYTHON`` names another one.
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
from tests.api.harness import open_harness

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
"""Optional features of our export. Unit prices, price lists, commitments and reservations are absent."""
EXPECTED_FAILURES = {"InvoiceId-C-005-C"}
"""The standard requires one of two rules: with an invoice or, as here, without one."""


def export_files(folder: Path) -> dict[str, Path]:
    """Exports two weeks that contain a bill, in both formats."""
    write_history(folder)
    paths = {}
    with open_harness(folder) as api:
        bill = {
            "pool": "a100",
            "from_day": write_day(begin_ms()),
            "to_day": write_day(begin_ms() + DAY_MS),
            "billed_micro_usd": 400_000_000,
        }
        assert api.admin.post("/v1/cost/bills", bill).status == 201
        days = f"from={write_day(begin_ms())}&to={write_day(today_ms())}"
        for form, name in (("focus", "focus.csv"), ("focus-parquet", "focus.parquet")):
            response = api.admin.get(f"/v1/cost/export?format={form}&{days}")
            assert response.status == 200, response.body
            paths[form] = folder / name
            paths[form].write_bytes(response.body)
    return paths


def find_python() -> str:
    """The path of the validator's interpreter, which may not exist."""
    chosen = os.environ.get("BURSAR_FOCUS_PYTHON")
    command = [str(INSTALL), "--path"]
    return chosen or subprocess.check_output(command, text=True).strip()


def validate(python: str, path: Path) -> str:
    """Runs the validator and returns its output. It finds its own files from the working directory."""
    program = "import focus_validator; print(focus_validator.__path__[0])"
    package = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    workdir = path.parent / "workdir"
    workdir.mkdir(exist_ok=True)
    link = workdir / "focus_validator"
    if not link.exists():
        link.symlink_to(package.stdout.strip())
    command: list[str] = [
        *(python, "-c", "from focus_validator.main import main; main()"),
        *("--data-file", str(path), "--validate-version", MODEL, "--block-download"),
        *("--focus-dataset", "CostAndUsage", "--applicability-criteria", ",".join(SUPPORTED)),
    ]
    result = subprocess.run(command, cwd=workdir, capture_output=True, text=True, timeout=300)
    return result.stdout + result.stderr


def test_the_public_validator_accepts_the_export(tmp_path: Path) -> None:
    python = find_python()
    if not Path(python).exists():
        pytest.skip(f"no validator: {INSTALL.relative_to(ROOT)} installs it as {python}")
    for form, path in export_files(tmp_path).items():
        output = validate(python, path)
        counts = re.search(r"Total: (\d+) \| Pass: (\d+) \| Fail: (\d+)", output)
        assert counts is not None, output[-2_000:]
        failed = set(re.findall(r"^. (\S+): FAIL", output, re.M))
        assert failed == EXPECTED_FAILURES, (form, failed)
        assert int(counts[2]) > 200 and int(counts[3]) == 1
        assert re.search(r"InvoiceId-C-003-C: PASS", output), "one of the two rules holds"
