"""``bursar slurm import`` and ``bursar slurm usage``: usable files, and exact bills."""

from __future__ import annotations

from pathlib import Path

import pytest

from bursar.config import read_fleet
from bursar.model.errors import UserError
from bursar.wiring.run_requests import RunRequest, choose_fleet, prepare, prepare_whatif
from bursar.wiring.slurm import governed, import_cluster, usage
from bursar.wiring.slurm.import_cluster import FLEET_FILE, LOG_FILE, SACCT_FILE, TRACE_FILE
from tests.engines.slurm.governed.fake_slurm import FakeSlurm
from tests.engines.slurm.governed.test_history import row, sacct
from tests.engines.slurm.governed.test_importing import slurm as answers

ROWS = (
    row("1", "00 01 11", "COMPLETED", Partition="serve"),
    row("2", "00 02 12", "COMPLETED", Account="product", User="carol", nodes="n2"),
    row("3", "01 12 14", "PREEMPTED", nodes="n3"),
    row("3", "14 20 40", "COMPLETED", nodes="n3"),
    row("4", "03 05 06", "COMPLETED", nodes="gone1"),
    row(
        "5",
        "03 05 07",
        "FAILED",
        Account="physics",
        User="eve",
        nodes="c1",
        gpus="0",
        ExitCode="1:0",
    ),
)
PRICED = """
clusters: {lab: {engine: slurm}, other: {}}
pools:
  t4: {cluster: lab, market: owned, gpus: t4 x 4, cpus: 32, memory_gib: 62.5, usd_per_node_hour: 3.6,
       nodes: [n1, n2, n3]}
  cpu: {cluster: lab, market: owned, cpus: 8, memory_gib: 62.5, usd_per_node_hour: 0.8, nodes: [c1]}
  elsewhere: {cluster: other, market: owned, cpus: 8, memory_gib: 64, usd_per_node_hour: 9, nodes: 3}
tenants: {acme: {children: {vision: {}, product: {}}}}
"""


def use(monkeypatch: pytest.MonkeyPatch, *rows: str) -> FakeSlurm:
    commands = answers()
    commands._answers = {**commands._answers, "sacct": sacct(*rows)}
    monkeypatch.setattr(governed, "local_commands", lambda **_: commands)
    return commands


def test_an_import_writes_files_that_can_be_simulated_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = use(monkeypatch, *ROWS)
    summary = import_cluster.import_slurm(str(tmp_path / "site"), None, None, {})
    site = tmp_path / "site"
    assert sorted(one.name for one in site.iterdir()) == sorted(
        [FLEET_FILE, TRACE_FILE, LOG_FILE, SACCT_FILE]
    )
    assert (summary.nodes, summary.gpus, summary.jobs) == (4, 12, 4)
    assert summary.bad_rows == ("sacct:6: job 4: it ran on nodes that no longer exist: gone1",)
    assert any("physics" in note for note in summary.notes)
    assert len(read_fleet(site / FLEET_FILE).fleet.nodes) == 4
    fleet = choose_fleet(str(site / FLEET_FILE))
    request = RunRequest(name="", source=str(site / TRACE_FILE), fleet=fleet)
    run = prepare(request).carry_out()
    assert run.summary.outcomes.succeeded == 5
    both = prepare_whatif(str(site / LOG_FILE), ["nodes.t4=4"]).carry_out()
    assert [one.jobs_over for one in both] == [4, 4]
    programs = {argv[0] for argv in commands.asked}
    assert programs == {"scontrol", "sacctmgr", "sacct"}
    assert not any("update" in argv or "-i" in argv for argv in commands.asked)


def test_an_import_without_history_is_noted_and_writes_the_fleet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch)
    with pytest.raises(UserError) as nothing:
        import_cluster.import_slurm(str(tmp_path), "now-1hour", None, {})
    assert nothing.value.code == "no-history"
    assert (tmp_path / FLEET_FILE).exists()


def test_the_bill_has_every_account_and_adds_up_to_the_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, *ROWS)
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(PRICED, encoding="utf-8")
    report = usage.slurm_usage(str(fleet), None, None)
    rows = {one.account: one for one in report.rows}
    assert [(name, one.foreign, one.jobs) for name, one in rows.items()] == [
        ("physics", True, 1),
        ("product", False, 1),
        ("vision", False, 2),
    ]
    node_minute = 3_600_000 // 60
    assert rows["product"].micro_usd == 10 * node_minute
    assert rows["vision"].micro_usd == (10 + 2 + 20) * node_minute
    assert rows["vision"].wasted_micro_usd == 2 * node_minute
    assert rows["physics"].micro_usd == rows["physics"].wasted_micro_usd == 2 * 800_000 // 60 // 2
    assert rows["vision"].users == (("ann", rows["vision"].micro_usd),)
    assert (
        sum(one.micro_usd for one in report.rows) + report.idle_micro_usd == report.fleet_micro_usd
    )
    text = "\n".join(report.lines())
    assert "physics (foreign)" in text and "bad row: sacct:6" in text
