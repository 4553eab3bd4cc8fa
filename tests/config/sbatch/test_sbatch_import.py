"""Import of twenty realistic batch scripts: the job file of each, its notes, and its output."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bursar.config.job.job_file import JobDefaults, JobDocument, parse_job
from bursar.config.sbatch.sbatch_import import CONVERTED, NOT_CONVERTED, SIZES, import_sbatch
from bursar.config.yaml.yaml_text import read_yaml
from bursar.model.errors import UserError
from tests.tidy.source import ROOT

FOLDER = ROOT / "tests" / "config" / "sbatch"
SCRIPTS = sorted(FOLDER.glob("*.sbatch"))
REFUSED = "20-heterogeneous"

# The job file of each script, without its commands.
KEYS: dict[str, dict[str, Any]] = {
    "01-hello": {"name": "hello", "max_hours": "5 min"},
    "02-one-gpu": {
        "name": "finetune",
        "max_hours": "12 h",
        "resources": {"accelerators": "a100-40gb:1", "cpus": 8, "memory": 64},
    },
    "03-torchrun-two-nodes": {
        "name": "llama-ft",
        "max_hours": "2 d",
        "num_nodes": 2,
        "resources": {"accelerators": 8, "cpus": 96, "memory": 900},
    },
    "04-lightning-task-per-gpu": {
        "name": "job",
        "max_hours": "2 h",
        "checkpoint": {"signal": "SIGUSR1"},
        "grace": "90 s",
        "preemptible": True,
        "num_nodes": 32,
        "resources": {"accelerators": 1, "cpus": 12},
    },
    "05-array": {
        "name": "sweep",
        "array": 100,
        "max_hours": "1 h 30 min",
        "resources": {"memory": 4},
    },
    "06-array-with-steps": {"name": "job", "array": 5, "max_hours": "30 min"},
    "07-array-of-odd-numbers": {"name": "job", "array": 4},
    "08-mpi": {
        "name": "lammps",
        "max_hours": "1 d",
        "num_nodes": 4,
        "resources": {"cpus": 32, "memory": "64000 MiB"},
    },
    "09-short-forms": {
        "name": "job",
        "max_hours": "1 h 30 min",
        "resources": {"accelerators": 2, "cpus": 8},
    },
    "10-gpus-total": {
        "name": "job",
        "num_nodes": 2,
        "resources": {"accelerators": "a100-80gb:4", "cpus": 24, "memory": 128},
    },
    "11-constraint-model": {
        "name": "job",
        "resources": {"accelerators": ["v100-16gb:2", "a100-40gb:2"]},
    },
    "12-python-script": {"name": "analysis", "resources": {"memory": 8}},
    "13-dependency": {"name": "job"},
    "14-export": {
        "name": "job",
        "envs": {"LR": "0.1", "MODEL": "resnet 50"},
        "preemptible": False,
    },
    "15-late-and-commented": {"name": "late", "max_hours": "10 min"},
    "16-elastic-and-disk": {
        "name": "job",
        "spread": "node",
        "num_nodes": 4,
        "min_nodes": 2,
        "resources": {"accelerators": 1, "disk_size": "102400 MiB"},
    },
    "17-odd-name": {"name": "my-job-rm--rf"},
    "18-master-port": {
        "name": "job",
        "num_nodes": 2,
        "resources": {"accelerators": "t4-16gb:4"},
    },
    "19-container": {"name": "job", "resources": {"accelerators": 4}},
}
# Excerpts of the notes of each script.
NOTES: dict[str, list[str]] = {
    "01-hello": [":3: --output"],
    "02-one-gpu": [":3: --partition=gpu", ":4: --account=nlp", "--mail-type", "'module'"],
    "03-torchrun-two-nodes": [":9: --exclusive", "each of the 2 tasks"],
    "04-lightning-task-per-gpu": [":6: --mem=0 means all memory", "login shell", "--signal"],
    "05-array": [":2: --array=0-99%10 runs at most 10 at once"],
    "08-mpi": [":8: --constraint=haswell", "mpirun finds only the node"],
    "11-constraint-model": [":4: --qos=high"],
    "13-dependency": [":2: --dependency=afterok", "'depends_on'", ":4: --begin"],
    "14-export": ["would send your own environment", "LD_PRELOAD", "--env HF_HOME"],
    "15-late-and-commented": [":7: is after the first command"],
    "16-elastic-and-disk": ["--switches"],
    "17-odd-name": ["'my-job-rm--rf'", "--nodelist", "--uid"],
    "19-container": ["--container-image", "SLURM_CLUSTER_NAME, which is not set"],
}


def imported(name: str) -> tuple[JobDocument, dict[str, Any], str]:
    file = FOLDER / f"{name}.sbatch"
    made = import_sbatch(file.read_text(encoding="utf-8"), file.name)
    document = parse_job(made.document_yaml, "job.yaml", JobDefaults(default_queue="q"))
    plain = read_yaml(made.document_yaml, "job.yaml").value
    return document, plain, "\n".join(made.notes)


def test_at_least_eighteen_of_twenty_scripts_are_imported() -> None:
    assert len(SCRIPTS) == 20
    done = 0
    for file in SCRIPTS:
        try:
            imported(file.stem)
            done += 1
        except UserError:
            assert file.stem == REFUSED
    assert done >= 18


@pytest.mark.parametrize("name", sorted(KEYS))
def test_options_become_keys(name: str) -> None:
    _, plain, _ = imported(name)
    assert {key: value for key, value in plain.items() if key != "run"} == KEYS[name]


@pytest.mark.parametrize("name", sorted(NOTES))
def test_notes_name_what_is_not_converted(name: str) -> None:
    _, _, notes = imported(name)
    for part in NOTES[name]:
        assert part in notes, notes


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.stem)
def test_no_option_is_dropped_silently(file: Path) -> None:
    """Each option becomes a key of the job, a size, or a note."""
    if file.stem == REFUSED:
        return
    from bursar.config.sbatch.options import read_script

    text = file.read_text(encoding="utf-8")
    notes = "\n".join(import_sbatch(text, file.name).notes)
    for option in read_script(text, file.name).options:
        known = option.name in SIZES or option.name in CONVERTED
        assert known or f"--{option.name}" in notes, option


def test_a_heterogeneous_job_is_refused_with_its_line() -> None:
    with pytest.raises(UserError, match=r"20-heterogeneous.sbatch:3:") as caught:
        imported(REFUSED)
    assert caught.value.code == "hetjob"


def test_no_option_is_both_converted_and_not() -> None:
    assert not set(CONVERTED) & set(NOT_CONVERTED)
    assert not SIZES & (set(CONVERTED) | set(NOT_CONVERTED))


@pytest.mark.parametrize(
    ("written", "hours"),
    [
        ("90", "1 h 30 min"),
        ("30:15", "30 min 15 s"),
        ("01:02:03", "1 h 2 min 3 s"),
        ("1-12", "1 d 12 h"),
        ("2-03:04", "2 d 3 h 4 min"),
        ("1-00:00:30", "1 d 30 s"),
    ],
)
def test_durations_of_slurm_become_max_hours(written: str, hours: str) -> None:
    made = import_sbatch(f"#!/bin/bash\n#SBATCH -t {written}\ntrue\n", "x")
    assert read_yaml(made.document_yaml, "").value["max_hours"] == hours


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "not-sbatch"),
        ("#!/bin/bash\n#SBATCH --time=1\n", "not-sbatch"),
        ("#!/bin/bash\n#SBATCH nonsense\ntrue\n", "not-sbatch"),
        ("#!/bin/bash\n#SBATCH --comment='open\ntrue\n", "not-sbatch"),
        ("#!/bin/bash\n#SBATCH --array=0-999999\ntrue\n", "array-size"),
        ("a\0b", "not-sbatch"),
    ],
)
def test_an_invalid_batch_script_is_refused(text: str, code: str) -> None:
    with pytest.raises(UserError) as caught:
        import_sbatch(text, "x.sbatch")
    assert caught.value.code == code


def test_an_unknown_option_is_noted_with_a_suggestion() -> None:
    made = import_sbatch("#!/bin/bash\n#SBATCH --cpu-per-task=4\ntrue\n", "x")
    assert "Did you mean 'cpus-per-task'" in made.notes[0]


def test_an_unambiguous_prefix_of_an_option_is_accepted() -> None:
    made = import_sbatch("#!/bin/bash\n#SBATCH --cpus-per-t=4 --out=a --n=3\ntrue\n", "x")
    assert read_yaml(made.document_yaml, "").value["resources"] == {"cpus": 4}
    assert "--n=3 is not a known option of sbatch" in made.notes[0]
    assert "--output=a is not needed" in made.notes[1]


def test_srun_without_a_command_ends() -> None:
    made = import_sbatch("#!/bin/bash\nsrun --label --mpi\nsrun -n\necho done\n", "x")
    commands = read_yaml(made.document_yaml, "").value["run"]
    done = subprocess.run(
        ["bash", "-c", commands], capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout == "done\n"


def test_other_shells_get_srun_and_other_languages_get_a_note() -> None:
    text = "srun -n 2 echo $SLURM_PROCID\n"
    made = import_sbatch(f"#!/usr/bin/zsh\n{text}", "x")
    commands = read_yaml(made.document_yaml, "").value["run"]
    assert commands.startswith("/usr/bin/zsh /dev/stdin <<") and "srun() {" in commands
    assert "csh finds no srun" in import_sbatch(f"#!/bin/csh\n{text}", "x").notes[-1]


# -- the scripts run -------------------------------------------------------------------------------------

TASK = {
    "BURSAR_JOB_ID": "j-abc[2]",
    "BURSAR_ARRAY_INDEX": "2",
    "BURSAR_NODE": "n1",
    "BURSAR_QUEUE": "q",
    "BURSAR_ATTEMPT": "1",
    "RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "1",
    "NODE_RANK": "1",
    "MASTER_ADDR": "127.0.0.1",
    "PATH": os.environ["PATH"],
}
OUTPUT = {
    "01-hello": "hello from job 781073644 in ",
    "03-torchrun-two-nodes": "head 127.0.0.1\ntorchrun --nnodes 2 --nproc_per_node 8 --rdzv_id ",
    "05-array": "member 2 of 100",
    "06-array-with-steps": "seed 5 of 1 to 9",
    "07-array-of-odd-numbers": "line 7",
    "12-python-script": "hello from 3",
    "14-export": "0.1 resnet 50",
    "15-late-and-commented": "start\nend",
    "16-elastic-and-disk": "rank 1 of 4",
    "18-master-port": "MASTER 127.0.0.1 port 1",
}


@pytest.mark.parametrize("name", sorted(OUTPUT))
def test_an_imported_script_finds_what_slurm_would_have_set(name: str, tmp_path: Path) -> None:
    document, _, _ = imported(name)
    (tmp_path / "params.txt").write_text("".join(f"line {n}\n" for n in range(1, 9)))
    done = subprocess.run(
        [document.recipe.shell, "-c", document.recipe.run],
        env={**document.recipe.envs, **TASK},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""
    assert done.stdout.startswith(OUTPUT[name]), done.stdout
