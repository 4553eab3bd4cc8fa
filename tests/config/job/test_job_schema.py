"""The schemas and the documentation have exactly the keys of the readers."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import jsonschema_rs
import pytest
import yaml

from bursar.config import read_fleet
from bursar.config.fleet.fleet_file import fleet_schema
from bursar.config.job.job_file import JobDefaults, parse_job, read_job
from bursar.config.job.job_keys import JOB, RESOURCES, TABLES, job_schema
from bursar.config.yaml.dataclass_tables import key_of
from bursar.model.errors import UserError
from bursar.model.tenants.policy import Policies
from tests.config.fleet.test_fleet_file import TABLES as FLEET_TABLES
from tests.config.fleet.test_fleet_file import properties_in
from tests.config.job.test_job_file import FULL_JOB
from tests.config.job.test_job_mistakes import MISTAKES
from tests.tidy.source import ROOT

DEFAULTS = JobDefaults(default_queue="research", now_ms=0)
JOBS = sorted({*(ROOT / "examples" / "jobs").glob("*.yaml")} - {ROOT / "examples/jobs/fleet.yaml"})
FLEETS = sorted(
    {*(ROOT / "examples").rglob("fleet.yaml"), *(ROOT / "examples").rglob("*-fleet.yaml")}
)
PAGE = (ROOT / "docs" / "job-file.md").read_text(encoding="utf-8")
VALID_JOB = jsonschema_rs.validator_for(job_schema())
VALID_FLEET = jsonschema_rs.validator_for(fleet_schema())


def all_keys(kind: Any) -> Iterator[str]:
    """The keys of a dataclass and of every dataclass in its fields."""
    for field, declared in get_type_hints(kind).items():
        yield key_of(field)
        for inner in (declared, *get_args(declared)):
            if is_dataclass(inner):
                yield from all_keys(inner)


def plain_of(text: str) -> dict[str, Any]:
    """The document as JSON, with a value for each secret again."""
    plain: dict[str, Any] = json.loads(parse_job(text, "job.yaml", DEFAULTS).document)
    return {**plain, "secrets": dict.fromkeys(plain.get("secrets", {}), "x")}


# -- jobs ----------------------------------------------------------------------------------------------


def test_the_schema_has_every_key_of_the_reader_and_no_other() -> None:
    assert set(properties_in(job_schema())) == {key for table in TABLES for key in table.keys}
    assert list(job_schema()["properties"]) == list(JOB.keys)


def test_the_page_names_every_key_and_every_refused_key() -> None:
    known = {key for table in TABLES for key in table.keys}
    documented = {*known, *RESOURCES.refused} - {"docker_image"}
    assert len(known) > 45
    assert sorted(key for key in documented if f"`{key}`" not in PAGE) == []


def test_every_key_has_a_meaning() -> None:
    assert all(key.meaning for table in TABLES for key in table.keys.values())


def test_suggested_keys_exist() -> None:
    for table in TABLES:
        for meant in table.meant.values():
            owner = RESOURCES if meant.startswith("resources.") else table
            assert meant.removeprefix("resources.") in owner.keys, meant
        assert not set(table.meant) & set(table.keys)
        assert not set(table.refused) & set(table.keys)


@pytest.mark.parametrize("file", JOBS, ids=lambda file: file.name)
def test_every_example_is_a_job_and_valid(file: Path) -> None:
    VALID_JOB.validate(plain_of(file.read_text(encoding="utf-8")))


def test_the_fullest_job_is_valid() -> None:
    VALID_JOB.validate(plain_of(FULL_JOB))


def test_the_example_on_the_page_is_a_job() -> None:
    found = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    VALID_JOB.validate(plain_of(found[1]))


@pytest.mark.parametrize(
    "mistake", sorted(name for name, case in MISTAKES.items() if case[2] == "unknown-key")
)
def test_the_schema_rejects_unknown_keys_too(mistake: str) -> None:
    assert not VALID_JOB.is_valid(yaml.safe_load(MISTAKES[mistake][0]))


VALUES: list[Any] = [
    *(0, 1, -1, 2.5, "", "a", "1 h", "T4:2", "mps 25%", "4+", "allowed", "2030-01-01T00:00Z", True),
    *([], ["a"], ["owned"], [{"T4": 1}], [{"use_spot": True}], {}, {"a": "b"}, {"T4": 1}, "$5"),
]


def test_the_schema_accepts_what_the_reader_accepts() -> None:
    accepted = 0
    for table, around in (
        (JOB, lambda values: values),
        (RESOURCES, lambda values: {"resources": values}),
    ):
        for key in table.keys:
            for value in VALUES:
                plain = {"run": "x", **around({key: value})}
                try:
                    read_job(plain, DEFAULTS)
                except UserError:
                    continue
                assert VALID_JOB.is_valid(plain), plain
                accepted += 1
    assert accepted > 100


# -- fleets ----------------------------------------------------------------------------------------------


def test_the_fleet_schema_has_every_key_of_the_reader_and_no_other() -> None:
    known = {key for table in FLEET_TABLES for key in table.keys} | set(all_keys(Policies))
    assert set(properties_in(fleet_schema())) == known


@pytest.mark.parametrize("file", FLEETS, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_fleet_is_valid(file: Path) -> None:
    read_fleet(file)
    VALID_FLEET.validate(yaml.safe_load(file.read_text(encoding="utf-8")))


def test_the_fleet_schema_rejects_unknown_keys() -> None:
    assert not VALID_FLEET.is_valid({"pool": {}})
    assert not VALID_FLEET.is_valid({"tenants": {"a": {"children": {"b": {"wieght": 1}}}}})
    assert not VALID_FLEET.is_valid({"policies": {"order": {"half_live": "1 d"}}})


# -- the examples run -----------------------------------------------------------------------

OUTPUTS = {
    "hello.yaml": "hello from j-1 on node-1",
    "gpu.yaml": "my GPUs: 0",
    "array.yaml": "member 3 tries a learning rate of 0.0125",
    "mig.yaml": "my slice: 0",
    "mps.yaml": "my share is of GPU 0",
    "spot-training.yaml": "done after 20 steps",
}


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    variables = {"BURSAR_JOB_ID": "j-1", "BURSAR_NODE": "node-1", "BURSAR_ARRAY_INDEX": "3"}
    variables |= {"CUDA_VISIBLE_DEVICES": "0", "PATH": os.environ["PATH"]}
    return {**variables, "CHECKPOINT_DIR": str(tmp_path / "saved"), "STEPS": "20", **more}


@pytest.mark.parametrize("name", sorted(OUTPUTS))
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    recipe = parse_job((ROOT / "examples" / "jobs" / name).read_text(), name, DEFAULTS).recipe
    done = subprocess.run(
        [recipe.shell, "-c", recipe.run],
        env={**recipe.envs, **environment(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert OUTPUTS[name] in done.stdout


def test_the_tasks_of_the_gang_communicate(tmp_path: Path) -> None:
    recipe = parse_job((ROOT / "examples/jobs/gang.yaml").read_text(), "gang.yaml", DEFAULTS).recipe
    port = str(20_000 + os.getpid() % 20_000)
    tasks = [
        subprocess.Popen(
            [recipe.shell, "-c", recipe.run],
            env=environment(
                tmp_path, RANK=str(n), WORLD_SIZE="4", MASTER_ADDR="127.0.0.1", MASTER_PORT=port
            ),
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(4)
    ]
    outputs = [task.communicate(timeout=60)[0] for task in tasks]
    assert outputs == [f"task {n} of 4: the ranks add up to 6\n" for n in range(4)]


def test_every_example_is_run_and_listed() -> None:
    assert {file.name for file in JOBS} == {*OUTPUTS, "gang.yaml"}
    listing = (ROOT / "examples" / "jobs" / "README.md").read_text(encoding="utf-8")
    assert all(f"`{file.name}`" in listing for file in JOBS)
