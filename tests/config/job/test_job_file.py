"""Jobs are read the same from YAML and from JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bursar.config.job.file_mounts import LocalFile
from bursar.config.job.job_file import JobDefaults, parse_job, read_job
from bursar.model.errors import UserError
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import (
    CheckpointPolicy,
    Constraints,
    FlavorChoice,
    JobSpec,
    MigSlice,
    MpsShare,
    SliceLayer,
    Spread,
    TaskGroup,
    Toleration,
    Topology,
    WholeGpus,
)
from bursar.model.jobs.run_spec import Mount, RunSpec
from bursar.model.units import GIB_MIB, HOUR_MS, MINUTE_MS

DEFAULTS = JobDefaults(default_queue="research", now_ms=1_000_000)
SHA = "ab" * 32
NON_SPOT = (Market.OWNED, Market.RESERVED, Market.ON_DEMAND)

FULL_JOB = f"""\
name: train
queue: nlp
priority: high
num_nodes: 4
min_nodes: 2
resources:
  accelerators: {{A100-80GB: 8}}
  cpus: 4+
  memory: 32+
  disk_size: 100
  gpu_memory: 80
  use_spot: true
  node_labels: {{zone: a}}
  tolerations: [spot, dedicated=nlp]
topology: {{preferred: rack, layers: [{{level: rack, size: 2}}]}}
apart: loud
envs: {{VERSION: 1.10, COUNTRY: NO, PORT: 8080, DEBUG: true}}
secrets: {{TOKEN: hunter2}}
workdir: sha256:{SHA}
file_mounts: {{data/in: sha256:{SHA}}}
setup: pip install x
run: |
  python train.py
max_hours: 12
expected_hours: 90 min
max_cost: 14.40
deadline: 6 h
preemptible: false
checkpoint: {{interval: 30 min, restart: 2 min, signal: usr1}}
grace: 2 min
retries: 3
depends_on: [j-a, j-b]
array: 5
labels: {{team: nlp, run: 7}}
"""


def group_of(text: str) -> TaskGroup:
    return parse_job(text + "\nrun: x\n", "job.yaml", DEFAULTS).spec.groups[0]


def test_every_key_is_read() -> None:
    read = parse_job(FULL_JOB, "job.yaml", DEFAULTS)
    assert read.spec == JobSpec(
        name="train",
        queue="nlp",
        groups=(
            TaskGroup(
                count=4,
                min_count=2,
                gpu=WholeGpus(count=8, models=("a100-80gb",), min_memory_mib=80 * GIB_MIB),
                cpu_milli=4000,
                memory_mib=32 * GIB_MIB,
                disk_mib=100 * GIB_MIB,
            ),
        ),
        priority_class="high",
        preemptible=False,
        expected_run_ms=90 * MINUTE_MS,
        max_run_ms=12 * HOUR_MS,
        deadline_ms=1_000_000 + 6 * HOUR_MS,
        constraints=Constraints(
            node_labels=(("zone", "a"),),
            tolerations=(Toleration(key="spot"), Toleration(key="dedicated", value="nlp")),
            topology=Topology(preferred="rack", layers=(SliceLayer(level="rack", size=2),)),
            apart="loud",
            markets=(Market.SPOT,),
        ),
        checkpoint=CheckpointPolicy(interval_ms=30 * MINUTE_MS, restart_ms=2 * MINUTE_MS),
        depends_on=("j-a", "j-b"),
        retries=3,
        array_size=5,
        max_cost_micro_usd=14_400_000,
    )
    assert read.recipe == RunSpec(
        run="python train.py\n",
        setup="pip install x",
        envs={"VERSION": "1.10", "COUNTRY": "NO", "PORT": "8080", "DEBUG": "true"},
        secrets={"TOKEN": "hunter2"},
        workdir=SHA,
        mounts=(Mount(target="data/in", bundle=SHA),),
        grace_seconds=120,
        stop_signal="SIGUSR1",
    )
    assert read.labels == {"team": "nlp", "run": "7"}
    assert read.local_files == ()


def test_only_run_is_required() -> None:
    read = read_job({"run": "echo"}, DEFAULTS)
    assert read.spec == JobSpec(name="job", queue="research", groups=(TaskGroup(),))
    assert read.recipe == RunSpec(run="echo")


def test_the_document_can_be_submitted_again_and_contains_no_secret() -> None:
    read = parse_job(FULL_JOB, "job.yaml", DEFAULTS)
    assert "hunter2" not in read.document
    plain = json.loads(read.document)
    assert plain["secrets"] == {"TOKEN": None}
    plain["secrets"] = {"TOKEN": "hunter2"}
    again = read_job(plain, DEFAULTS)
    assert (again.spec, again.recipe, again.labels) == (read.spec, read.recipe, read.labels)
    as_yaml = parse_job(json.dumps(plain), "job.yaml", DEFAULTS)
    assert (as_yaml.spec, as_yaml.recipe) == (read.spec, read.recipe)


def test_a_secret_needs_a_value_and_its_value_is_never_shown() -> None:
    with pytest.raises(UserError, match="'TOKEN' of 'secrets' has no value") as caught:
        read_job({"run": "x", "secrets": {"TOKEN": None}}, DEFAULTS)
    assert "--secret" in caught.value.fix
    for odd in (["hunter2"], {"a": "hunter2"}, 1.5, "hunter2\0"):
        with pytest.raises(UserError) as caught:
            read_job({"run": "x", "secrets": {"TOKEN": odd}}, DEFAULTS)
        assert "hunter2" not in str(caught.value)


ACCELERATORS: dict[str, tuple[Any, WholeGpus, FlavorChoice]] = {
    "one": ("T4", WholeGpus(count=1, models=("t4-16gb",)), FlavorChoice.COST),
    "several": ("A100:8", WholeGpus(count=8, models=("a100-40gb",)), FlavorChoice.COST),
    "any model": (2, WholeGpus(count=2), FlavorChoice.COST),
    "a mapping": ({"t4": 4}, WholeGpus(count=4, models=("t4-16gb",)), FlavorChoice.COST),
    "a mapping of several is any of them": (
        {"T4": 4, "L4": 4},
        WholeGpus(count=4, models=("t4-16gb", "l4-24gb")),
        FlavorChoice.COST,
    ),
    "a set as SkyPilot writes it": (
        {"T4:4": None, "L4:4": None},
        WholeGpus(count=4, models=("t4-16gb", "l4-24gb")),
        FlavorChoice.COST,
    ),
    "a list is by preference": (
        ["L4:4", {"T4": 4}],
        WholeGpus(count=4, models=("l4-24gb", "t4-16gb")),
        FlavorChoice.ORDER,
    ),
}


@pytest.mark.parametrize("form", sorted(ACCELERATORS))
def test_accelerators_take_several_forms(form: str) -> None:
    written, gpus, choose_by = ACCELERATORS[form]
    spec = read_job({"run": "x", "resources": {"accelerators": written}}, DEFAULTS).spec
    assert spec.groups[0].gpu == gpus
    assert spec.constraints.choose_by is choose_by
    assert spec.constraints.markets == NON_SPOT


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("gpu: mig 1g.10gb", MigSlice(profile="1g.10gb")),
        ("gpu: mps 25%", MpsShare(percent=25)),
        ("resources: {gpu: mps 25% 8 GiB}", MpsShare(percent=25, memory_mib=8 * GIB_MIB)),
        (
            "resources: {accelerators: A100-80GB, gpu: mig 1g.10gb+me}",
            MigSlice(profile="1g.10gb+me", models=("a100-80gb",)),
        ),
        (
            "resources: {accelerators: [T4, L4], gpu: mps 50%}",
            MpsShare(percent=50, models=("t4-16gb", "l4-24gb")),
        ),
    ],
)
def test_shares_of_a_gpu(written: str, meant: MigSlice | MpsShare) -> None:
    assert group_of(written).gpu == meant


@pytest.mark.parametrize(
    ("written", "mib"),
    [("32", 32768), ("32+", 32768), ("0.5", 512), ("512 MiB", 512), ("2TB", 2 << 20), ("16GB+", 16384)],
)  # fmt: skip
def test_memory_without_a_unit_is_gib(written: str, mib: int) -> None:
    assert group_of(f"resources: {{memory: {written}}}").memory_mib == mib


MARKETS: dict[str, tuple[str, tuple[Market, ...], tuple[str, ...], FlavorChoice]] = {
    "only spot": ("use_spot: true", (Market.SPOT,), (), FlavorChoice.COST),
    "never on spot": ("use_spot: false", NON_SPOT, (), FlavorChoice.COST),
    "spot allowed": ("use_spot: allowed", (*NON_SPOT, Market.SPOT), (), FlavorChoice.COST),
    "markets by name": (
        "markets: [spot, owned]", (Market.SPOT, Market.OWNED), (), FlavorChoice.COST),
    "any of two models": (
        "any_of: [{accelerators: T4:2}, {accelerators: L4:2}]",
        NON_SPOT, ("t4-16gb", "l4-24gb"), FlavorChoice.COST),
    "spot or not": (
        "{accelerators: T4:2, any_of: [{use_spot: true}, {use_spot: false}]}",
        (Market.SPOT, *NON_SPOT), ("t4-16gb",), FlavorChoice.COST),
    "spot first, then the rest": (
        "{accelerators: T4:2, ordered: [{use_spot: true}, {use_spot: false}]}",
        (Market.SPOT, *NON_SPOT), ("t4-16gb",), FlavorChoice.ORDER),
    "two models on spot, then both elsewhere": (
        "ordered: [{accelerators: [L4:2, T4:2], use_spot: true}, {accelerators: [L4:2, T4:2]}]",
        (Market.SPOT, *NON_SPOT), ("l4-24gb", "t4-16gb"), FlavorChoice.ORDER),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(MARKETS))
def test_alternatives_become_models_and_markets(case: str) -> None:
    written, markets, models, choose_by = MARKETS[case]
    inner = written if written.startswith("{") else f"{{{written}}}"
    spec = parse_job(f"run: x\nresources: {inner}\n", "job.yaml", DEFAULTS).spec
    assert spec.constraints.markets == markets
    assert spec.constraints.choose_by is choose_by
    assert (spec.groups[0].gpu.models if spec.groups[0].gpu else ()) == models


def test_anchors_are_a_percentage_of_the_tasks() -> None:
    written = "run: x\nnum_nodes: 10\nresources: {use_spot: allowed, anchors_percent: 30}\n"
    constraints = parse_job(written, "job.yaml", DEFAULTS).spec.constraints
    assert (constraints.anchors_percent, constraints.markets) == (30, (*NON_SPOT, Market.SPOT))
    assert parse_job("run: x\n", "job.yaml", DEFAULTS).spec.constraints.anchors_percent == 0


NOT_EXPRESSIBLE = {
    "different numbers": "accelerators: {A100: 8, H100: 4}",
    "a model tied to a market":
        "any_of: [{accelerators: T4, use_spot: true}, {accelerators: L4}]",
    "a model before a market":
        "ordered: [{accelerators: T4, use_spot: true}, {accelerators: T4}, "
        "{accelerators: L4, use_spot: true}, {accelerators: L4}]",
    "GPUs or none": "any_of: [{accelerators: T4}, {use_spot: false}]",
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(NOT_EXPRESSIBLE))
def test_what_cannot_be_expressed_is_rejected(case: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_job(f"run: x\nresources: {{{NOT_EXPRESSIBLE[case]}}}\n", "job.yaml", DEFAULTS)
    assert caught.value.code == "not-expressible"


TWO_CHOICES = {
    "use_spot and markets": "resources: {use_spot: true, markets: [spot]}",
    "any_of and ordered": "resources: {any_of: [{use_spot: true}], ordered: [{use_spot: true}]}",
    "gpu twice": "gpu: mps 5%\nresources: {gpu: mps 5%}",
    "whole GPUs and a share": "resources: {accelerators: 'T4:2', gpu: mps 5%}",
}


@pytest.mark.parametrize("case", sorted(TWO_CHOICES))
def test_two_keys_for_the_same_choice_are_rejected(case: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_job(f"run: x\n{TWO_CHOICES[case]}\n", "job.yaml", DEFAULTS)
    assert caught.value.code == "two-choices"


def test_a_list_of_words_is_run_without_a_shell() -> None:
    read = read_job({"run": ["python", "a.py", "--x=$HOME"]}, DEFAULTS)
    assert (read.recipe.argv, read.recipe.run) == (("python", "a.py", "--x=$HOME"), "")
    with pytest.raises(UserError, match="a 'run' that is a list"):
        read_job({"run": ["a"], "setup": "b"}, DEFAULTS)


def test_local_paths_are_returned_for_upload() -> None:
    read = parse_job(
        "run: x\nworkdir: .\nfile_mounts: {in/a.csv: ../a.csv}\n", "job.yaml", DEFAULTS
    )
    assert read.local_files == (
        LocalFile(path="."),
        LocalFile(path="../a.csv", target="in/a.csv"),
    )
    assert read.recipe.workdir is None and read.recipe.mounts == ()


@pytest.mark.parametrize(
    ("written", "at_ms"),
    [
        ("1970-01-01T00:00:01Z", None),
        ("2030-01-01T00:00:00Z", 1_893_456_000_000),
        ("2030-01-01T02:00:00+02:00", 1_893_456_000_000),
        ("90 s", 1_090_000),
    ],
)
def test_a_deadline_is_a_date_or_a_time_from_now(written: str, at_ms: int | None) -> None:
    plain = {"run": "x", "deadline": written}
    if at_ms is None:
        with pytest.raises(UserError, match="before 1971"):
            read_job(plain, DEFAULTS)
    else:
        assert read_job(plain, DEFAULTS).spec.deadline_ms == at_ms


@pytest.mark.parametrize("value", ["node", {"level": "node", "max_tasks": 1}, {}])
def test_spread_is_a_level_or_a_mapping(value: object) -> None:
    assert read_job({"run": "x", "spread": value}, DEFAULTS).spec.constraints.spread == Spread()


def test_a_job_needs_a_queue() -> None:
    with pytest.raises(UserError, match="lacks 'queue'"):
        read_job({"run": "x"})


def test_a_key_with_null_counts_as_left_out() -> None:
    assert parse_job("run: x\nsetup:\nresources:\n  cpus:\n", "j", DEFAULTS).spec == JobSpec(
        name="job", queue="research", groups=(TaskGroup(),)
    )
