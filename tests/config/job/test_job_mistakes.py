"""Fifty common mistakes in a job file: each error has line, key and fix."""

from __future__ import annotations

import pytest

from bursar.config.job.job_file import JobDefaults, parse_job, read_job
from bursar.config.job.job_keys import TABLES
from bursar.config.yaml.key_tables import unknown_key
from bursar.config.yaml.yaml_text import read_yaml
from bursar.model.errors import UserError

DEFAULTS = JobDefaults(default_queue="research", now_ms=0)

# The mistake -> the file, its location, its code, and what the fix must contain.
MISTAKES: dict[str, tuple[str, str, str, str]] = {
    # -- unknown keys, with a suggestion
    "accelerators without its last letter": (
        "run: x\nresources:\n  accelerator: A100:8\n", "3:3", "unknown-key", "'accelerators'"),
    "accelerators outside resources": (
        "accelerators: A100:8\nrun: x\n", "1:1", "unknown-key", "'resources.accelerators'"),
    "GPUs by another name": (
        "run: x\nresources:\n  gpus: 8\n", "3:3", "unknown-key", "'accelerators'"),
    "env without its last letter": (
        "run: x\nenv:\n  A: 1\n", "2:1", "unknown-key", "'envs'"),
    "environment": ("environment: {A: b}\nrun: x\n", "1:1", "unknown-key", "'envs'"),
    "num_nodes with a dash": ("num-nodes: 2\nrun: x\n", "1:1", "unknown-key", "'num_nodes'"),
    "num_nodes without its last letter": (
        "num_node: 2\nrun: x\n", "1:1", "unknown-key", "'num_nodes'"),
    "nodes": ("nodes: 2\nrun: x\n", "1:1", "unknown-key", "'num_nodes'"),
    "a capital letter": ("Name: a\nrun: x\n", "1:1", "unknown-key", "'name'"),
    "command for run": ("command: python a.py\n", "1:1", "unknown-key", "'run'"),
    "runs": ("runs: x\n", "1:1", "unknown-key", "'run'"),
    "set-up": ("run: x\nset_up: y\n", "2:1", "unknown-key", "'setup'"),
    "workdir in two words": ("run: x\nwork_dir: .\n", "2:1", "unknown-key", "'workdir'"),
    "file mounts in one word": (
        "run: x\nfilemounts: {a: b}\n", "2:1", "unknown-key", "'file_mounts'"),
    "timeout": ("run: x\ntimeout: 3600\n", "2:1", "unknown-key", "'max_hours'"),
    "max_hour": ("run: x\nmax_hour: 2\n", "2:1", "unknown-key", "'max_hours'"),
    "max-cost": ("run: x\nmax-cost: 2\n", "2:1", "unknown-key", "'max_cost'"),
    "dependencies": ("run: x\ndependencies: [a]\n", "2:1", "unknown-key", "'depends_on'"),
    "depend_on": ("run: x\ndepend_on: [a]\n", "2:1", "unknown-key", "'depends_on'"),
    "priority class": ("run: x\npriority_class: high\n", "2:1", "unknown-key", "'priority'"),
    "preemptable": ("run: x\npreemptable: false\n", "2:1", "unknown-key", "'preemptible'"),
    "checkpoints": ("run: x\ncheckpoints: {}\n", "2:1", "unknown-key", "'checkpoint'"),
    "every instead of interval": (
        "run: x\ncheckpoint:\n  every: 10 min\n", "3:3", "unknown-key", "'interval'"),
    "cpu": ("run: x\nresources: {cpu: 4}\n", "2:13", "unknown-key", "'cpus'"),
    "mem": ("run: x\nresources: {mem: 4}\n", "2:13", "unknown-key", "'memory'"),
    "spot": ("run: x\nresources: {spot: true}\n", "2:13", "unknown-key", "'use_spot'"),
    "anchors": ("run: x\nresources: {anchors: 30}\n", "2:13", "unknown-key", "'anchors_percent'"),
    "anchors of more than all": (
        "run: x\nresources: {anchors_percent: 130}\n", "2:30", "out-of-range", "1 to 100"),
    "anchors of one alternative": (
        "run: x\nresources: {any_of: [{use_spot: true, anchors_percent: 3}]}\n",
        "2:39", "not-supported", "once, outside"),
    "use-spot": ("run: x\nresources: {use-spot: true}\n", "2:13", "unknown-key", "'use_spot'"),
    "anyof": ("run: x\nresources: {anyof: []}\n", "2:13", "unknown-key", "'any_of'"),
    "accelerators at the top, misspelt": (
        "run: x\nacelerators: T4:1\n", "2:1", "unknown-key", "'resources.accelerators'"),
    "memory at the top": ("run: x\nmemory: 32\n", "2:1", "unknown-key", "'resources.memory'"),
    "a key of an alternative": (
        "run: x\nresources:\n  any_of:\n    - {accelerator: T4}\n",
        "4:8", "unknown-key", "'accelerators'"),
    # -- invalid values, with a suggestion
    "a GPU model misspelt": (
        "run: x\nresources:\n  accelerators: A100-80BG:8\n",
        "3:17", "unknown-gpu-model", "'a100-80gb'"),
    "a market misspelt": (
        "run: x\nresources: {markets: [ownd]}\n", "2:23", "unknown-choice", "'owned'"),
    "a signal misspelt": (
        "run: x\ncheckpoint: {signal: SIGUSER1}\n", "2:22", "unknown-choice", "'SIGUSR1'"),
    "another word for allowed": (
        "run: x\nresources: {use_spot: allow}\n", "2:23", "unknown-choice", "'allowed'"),
    "the number before the model": (
        "run: x\nresources: {accelerators: 8xA100}\n", "2:27", "wrong-type", "'A100:8'"),
    "half a GPU": (
        "run: x\nresources: {accelerators: 'A100:0.5'}\n", "2:27", "wrong-type", "mps 50%"),
    "a span for an array": ("run: x\narray: 0-99\n", "2:8", "wrong-type", "100"),
    "a name with a space": ("name: my job\nrun: x\n", "1:7", "bad-name", "'my-job'"),
    # -- invalid values
    "a text for a number": ("run: x\nnum_nodes: two\n", "2:12", "wrong-type", "number"),
    "no tasks": ("run: x\nnum_nodes: 0\n", "2:12", "out-of-range", "1 to 100,000"),
    "a time without a unit": (
        "run: x\ncheckpoint: {interval: 10}\n", "2:24", "wrong-type", "min"),
    "a deadline without a time zone": (
        "run: x\ndeadline: 2030-01-01T10:00:00\n", "2:11", "wrong-type", "2030-01-01T10:00:00Z"),
    "a list for a mapping": ("run: x\nresources: [a]\n", "2:12", "wrong-type", "key: value"),
    "another word for true": ("run: x\npreemptible: sure\n", "2:14", "wrong-type", "true or false"),
    "yes": ("run: x\npreemptible: yes\n", "2:14", "wrong-type", "true or false"),
    "no": ("run: x\npreemptible: no\n", "2:14", "wrong-type", "true or false"),
    "True": ("run: x\npreemptible: True\n", "2:14", "wrong-type", "true or false"),
    "a variable that the loader obeys": (
        "run: x\nenvs:\n  LD_PRELOAD: a.so\n", "3:3", "reserved-variable", "export LD_PRELOAD"),
    "a path out of the working directory": (
        "run: x\nfile_mounts:\n  ../a: b\n", "3:3", "bad-path", "inside the working directory"),
    # -- the document
    "nothing to run": ("name: a\n", "1:1", "missing-key", "run"),
    "a key that appears twice": ("run: x\nname: a\nrun: y\n", "3:1", "duplicate-key", "one of them"),
    "a key of SkyPilot without a counterpart": (
        "run: x\nresources:\n  infra: aws\n", "3:3", "not-supported", "pools of its fleet"),
    "a tab for indentation": ("resources:\n\tcpus: 1\nrun: x\n", "2:1", "not-yaml", "spaces"),
}  # fmt: skip
SUGGESTED = [name for name, case in MISTAKES.items() if "'" in case[3]]


def error_of(text: str) -> UserError:
    with pytest.raises(UserError) as caught:
        parse_job(text, "job.yaml", DEFAULTS)
    return caught.value


def test_there_are_fifty() -> None:
    assert len(MISTAKES) >= 50
    assert len(SUGGESTED) >= 35


@pytest.mark.parametrize("mistake", sorted(MISTAKES))
def test_an_error_has_its_location_and_fix(mistake: str) -> None:
    text, location, code, fix = MISTAKES[mistake]
    error = error_of(text)
    assert error.problem.startswith(f"job.yaml:{location}: "), error.problem
    assert error.code == code
    assert fix in error.fix, error.fix
    assert error.problem.endswith(".")


@pytest.mark.parametrize("mistake", sorted(MISTAKES))
def test_the_message_names_the_key(mistake: str) -> None:
    text, location, _, _ = MISTAKES[mistake]
    line = text.splitlines()[int(location.partition(":")[0]) - 1]
    error = error_of(text)
    words = [word.strip("'\" ") for word in line.replace("{", " ").replace("[", " ").split(":")]
    named = any(word and word.split()[-1] in str(error) for word in words)
    assert named or error.code in ("not-yaml", "missing-key"), error.problem


ONLY_IN_TEXT = {"a tab for indentation", "a key that appears twice"}


@pytest.mark.parametrize("mistake", sorted(set(MISTAKES) - ONLY_IN_TEXT))
def test_json_with_the_same_mistake_is_rejected_the_same(mistake: str) -> None:
    text, _, code, fix = MISTAKES[mistake]
    with pytest.raises(UserError) as caught:
        read_job(read_yaml(text, "").value, DEFAULTS)
    assert caught.value.code == code
    assert fix in caught.value.fix


def test_errors_in_json_have_the_path_of_keys() -> None:
    plain = {"run": "x", "resources": {"any_of": [{"use_spot": True}, {"use_spot": 7}]}}
    with pytest.raises(UserError) as caught:
        read_job(plain, DEFAULTS)
    assert caught.value.problem == (
        "resources.any_of[1].use_spot: 'use_spot' of entry 2 of 'any_of' of 'resources' is 7."
    )


def typos_of(word: str) -> set[str]:
    """One letter omitted, doubled, swapped with the next, or replaced."""
    typos = set()
    for at in range(len(word)):
        typos |= {word[:at] + word[at + 1 :], word[: at + 1] + word[at:]}
        typos.add(word[:at] + word[at + 1 : at + 2] + word[at] + word[at + 2 :])
        typos |= {word[:at] + letter + word[at + 1 :] for letter in "aesx_"}
    return typos - {word, ""}


def test_nine_in_ten_typos_in_keys_get_the_right_suggestion() -> None:
    suggested = [
        f"'{key}'" in unknown_key(typo, table).fix
        for table in TABLES
        for key in table.keys
        for typo in sorted(typos_of(key) - set(table.keys))
    ]
    assert len(suggested) > 2_000
    assert sum(suggested) / len(suggested) > 0.9
