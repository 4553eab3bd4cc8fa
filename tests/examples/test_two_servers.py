"""Two servers on one state: one leads; the other follows and takes over when it dies."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.examples.up import Installation, until, up

FLEET = """
clusters: {here: {engine: local}}
pools:
  t4: {cluster: here, market: owned, gpu_model: t4, gpus_per_node: 4, cpus: 16, memory_gib: 32,
       usd_per_node_hour: 1.6, nodes: 1}
tenants: {acme: {children: {research: {}}}}
"""
TAKE_OVER_SECONDS = 15.0


def submit(there: Installation, seconds: float) -> str:
    command = ("submit", "--queue", "research", "--gpus", "1", "-y", "--", "sleep", str(seconds))
    output = there.bursar(*command)
    return output.split()[0]


@pytest.mark.thorough
def test_the_second_takes_over_and_recovers_running_jobs(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET, encoding="utf-8")
    with up(tmp_path, fleet, "first") as first:
        submit(first, 8)
        until(lambda: [job["state"] for job in first.jobs()] == ["running"], "the job runs")
        with up(tmp_path, fleet, "second") as second:
            assert "follows" in second.log.read_text()
            first_address = first.address
            first.server.send_signal(signal.SIGKILL)
            first.server.wait(10)
            took = until(
                lambda: second.address != first_address, "the second leads", TAKE_OVER_SECONDS
            )
            assert took < TAKE_OVER_SECONDS
            submit(second, 0)
            until(
                lambda: sorted(job["state"] for job in second.jobs()) == ["succeeded"] * 2,
                "both jobs end, the first one under the second server",
            )
            assert {job["attempt"] for job in second.jobs()} == {1}


@pytest.mark.thorough
def test_a_leader_that_was_suspended_continues_to_lead(tmp_path: Path) -> None:
    """SIGSTOP, longer than the follower's interval between attempts to lead, then SIGCONT."""
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET, encoding="utf-8")
    with up(tmp_path, fleet, "first") as first:
        submit(first, 3)
        until(lambda: [job["state"] for job in first.jobs()] == ["running"], "the job runs")
        with up(tmp_path, fleet, "second") as second:
            first.server.send_signal(signal.SIGSTOP)
            time.sleep(6)
            first.server.send_signal(signal.SIGCONT)
            until(
                lambda: [job["state"] for job in second.jobs()] == ["succeeded"],
                "the end of the job is recorded after the leader continues",
            )
            assert [job["attempt"] for job in second.jobs()] == [1]
            leads = ["leads" in one.log.read_text() for one in (first, second)]
            assert leads == [True, False], "the first one leads as long as it lives"
