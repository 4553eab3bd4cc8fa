"""Published files are read with the counts that their publishers state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bursar.simulate.traces import read_machine_changes, read_trace, write_trace
from bursar.simulate.traces.input_files import archive_members
from bursar.simulate.traces.trace_summary import describe
from studies.formats.openb_nodes import read_nodes
from studies.formats.spot_archives import read_lifetimes, read_spot_archive
from studies.formats.spot_prices import read_spot_prices
from tests.seeds import first_always

Find = Callable[[str], str]

OPENB = "alibaba_openb_gpu_v2023"
GAVEL = "gavel/gavel_traces_physical_and_msr_seed0.tar.xz"
POLLUX = "sia_pollux_workloads/pollux_workloads.tar.xz"
SIA = "sia_pollux_workloads/sia_workloads_philly_saturn_newtrace_scale.tar.xz"
SPOT = "spot_availability_skypilot"

# file, jobs, GPU-hours rounded (None where there are no times), teams.
TRACES: list[tuple[str, int, int | None, int]] = [
    ("bench/philly_5000_20171106.csv", 5_000, 53_100, 11),
    ("bench/philly_1000_20171106.csv", 1_000, 19_696, 10),
    ("helios_slice/helios_venus_2vc_sept.csv.xz", 1_867, 118_318, 2),
    (f"{OPENB}/openb_pod_list_default.csv.xz", 8_152, 51_499, 4),
    (f"{OPENB}/openb_pod_list_variants.tar.xz::openb_pod_list_gpuspec33.csv", 8_152, 51_499, 4),
    (f"{OPENB}/openb_pod_list_variants.tar.xz::openb_pod_list_multigpu50.csv", 9_061, None, 1),
    ("muri_philly/trace1.csv.xz", 1_494, 383_327, 1),
    ("muri_philly/trace2.csv.xz", 5_755, 824_082, 1),
    ("hydra_alibaba_deadlines/20_ddl.csv.xz", 5_000, 12_561, 1),
    (f"{GAVEL}::physical_cluster/max_min_fairness.trace", 96, 393, 1),
    (f"{POLLUX}::workloads/workload-6.csv", 160, 1_076, 1),
    (f"{SIA}::workloads/philly/workload-1.csv", 160, None, 1),
    ("philly/philly_passed_82247.csv.xz", 82_247, 978_078, 15),
    ("chronus_philly_deadlines/trace_job_Philly_MIX1.csv.xz", 30_940, 371_328, 11),
    ("chronus_philly_deadlines/trace_job_Philly_SLO.csv.xz", 30_940, 368_511, 11),
]
"""The last three are large files."""


@pytest.mark.parametrize(
    ("name", "jobs", "gpu_hours", "teams"),
    first_always(len(TRACES) - 3, TRACES),
    ids=lambda value: str(value),
)
def test_a_published_trace_is_read_in_full(
    published: Find, name: str, jobs: int, gpu_hours: int | None, teams: int
) -> None:
    trace = read_trace(published(name))
    summary = describe(trace)
    assert trace.bad_rows == ()
    assert summary.jobs == jobs
    assert gpu_hours is None or round(summary.gpu_hours) == gpu_hours
    assert len(summary.teams) == teams
    assert trace.jobs[0].submitted_ms == 0


@pytest.mark.thorough
def test_the_philly_list_begins_and_ends_at_the_published_times(published: Find) -> None:
    """2017-09-04 10:30:41 to 2017-12-22 08:02:11."""
    trace = read_trace(published("philly/philly_passed_82247.csv.xz"))
    assert trace.jobs[-1].submitted_ms == (((108 * 24 + 21) * 60 + 31) * 60 + 30) * 1_000
    assert trace.jobs[-1].submitted_ms == describe(trace).span_ms


@pytest.mark.thorough
def test_deadlines_of_chronus_and_hydra(published: Find) -> None:
    mixed = read_trace(published("chronus_philly_deadlines/trace_job_Philly_MIX1.csv.xz"))
    strict = read_trace(published("chronus_philly_deadlines/trace_job_Philly_SLO.csv.xz"))
    hydra = read_trace(published("hydra_alibaba_deadlines/20_ddl.csv.xz"))
    with_deadline = [
        sum(job.deadline_ms is not None for job in one) for one in (mixed, strict, hydra)
    ]
    assert with_deadline == [21_724, 30_940, 985]
    for trace in (mixed, strict, hydra):
        for job in trace:
            assert job.deadline_ms is None or job.deadline_ms >= job.submitted_ms + job.run_ms


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("archive", "files", "jobs"),
    [
        (f"{OPENB}/openb_pod_list_variants.tar.xz", 23, 191_045),
        (GAVEL, 23, 15_551),
        (POLLUX, 40, 7_680),
        (SIA, 60, 25_280),
    ],
)
def test_every_trace_of_an_archive_is_recognised(
    published: Find, archive: str, files: int, jobs: int
) -> None:
    traces = [
        read_trace(one) for one in archive_members(published(archive)) if not one.endswith(".md")
    ]
    assert len(traces) == files
    assert sum(len(trace) for trace in traces) == jobs
    assert not [row for trace in traces for row in trace.bad_rows]


@pytest.mark.thorough
def test_a_published_trace_is_read_back_from_our_own_format(
    published: Find, tmp_path: Path
) -> None:
    for name in (
        f"{OPENB}/openb_pod_list_variants.tar.xz::openb_pod_list_gpuspec33.csv",
        "chronus_philly_deadlines/trace_job_Philly_MIX1.csv.xz",
        "philly/philly_passed_82247.csv.xz",
    ):
        trace = read_trace(published(name))
        write_trace(trace, tmp_path / "t.csv")
        again = read_trace(tmp_path / "t.csv")
        assert again.jobs == trace.jobs
        assert again.bad_rows == ()


def test_the_machines_of_openb(published: Find) -> None:
    every = read_nodes(published(f"{OPENB}/openb_node_list_all_node.csv"))
    with_gpus = read_nodes(published(f"{OPENB}/openb_node_list_gpu_node.csv"))
    assert (len(every.nodes), len(with_gpus.nodes)) == (1_523, 1_213)
    assert (every.gpus, with_gpus.gpus) == (6_212, 6_212)
    assert sum(node.cpu_milli for node in with_gpus.nodes) == 107_018_000
    assert every.bad_rows == with_gpus.bad_rows == ()
    pods = read_trace(
        published(f"{OPENB}/openb_pod_list_variants.tar.xz::openb_pod_list_gpuspec33.csv")
    )
    asked = {model for pod in pods for model in pod.gpu_models}
    assert asked == {node.gpu_model for node in with_gpus.nodes}


def test_spot_availability_and_its_inverted_copies(published: Find) -> None:
    """A derived window, inverted, is a part of the series it was taken from."""
    fortnight = read_spot_archive(
        published(f"{SPOT}/spot_traces_json.tar.xz"), "availability/1-node/aws-10-26-2022"
    )
    assert [len(one.available) for one in fortnight] == [3_895] * 8
    assert {one.tick_ms for one in fortnight} == {600_000}
    k80 = next(one for one in fortnight if (one.zone, one.instance_type) == ("us-west-2a", "k80_1"))
    assert 1 - k80.available.count(0) / len(k80.available) > 0.85
    months = read_spot_archive(
        published(f"{SPOT}/spot_traces_json.tar.xz"), "availability/1-node/aws-02-15-2023"
    )
    (source,) = [one for one in months if one.zone == "us-west-2a"]
    windows = read_spot_archive(
        published(f"{SPOT}/multi_region_aligned_windows_with_prices.tar.xz"),
        "converted_multi_region_aligned/us-west-2a",
    )
    assert len(windows) == 70
    assert all(window.available in source.available for window in windows)
    assert all(len(window.price_micro_usd) == 1_107 for window in windows)


def test_lifetimes_and_machines(published: Find) -> None:
    found = read_lifetimes(published("google_preemption_2019/gcp_preemptible_lifetimes.csv"))
    hours = sorted(one.lifetime_ms / 3_600_000 for one in found.lifetimes)
    assert len(hours) == 1_442
    assert found.bad_rows == ()
    assert round(hours[len(hours) // 2], 2) == 1.86
    assert round(sum(hours) / len(hours), 1) == 8.4
    bamboo = read_machine_changes(published("spot_other/bamboo/p3-trace.csv"))
    parcae = read_machine_changes(published("spot_other/parcae/p3.csv"))
    assert bamboo.bad_rows == parcae.bad_rows == ()
    assert list(bamboo.changes()) == list(parcae.changes())


@pytest.mark.thorough
def test_the_history_of_spot_prices(published: Find) -> None:
    path = published("cloud_prices/aws_gpu_spot_history_2022-12_2026-08.csv.xz")
    history = read_spot_prices(path)
    assert len(history.series) == 980
    assert sum(len(one) for one in history.series) == 1_506_947
    assert history.bad_rows == ()
