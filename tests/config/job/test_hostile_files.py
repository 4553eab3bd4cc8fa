"""Input written to break the reader or what follows it is rejected cheaply."""

from __future__ import annotations

import json
import math
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.config.fleet.fleet_file import parse_fleet
from bursar.config.job.job_file import JobDefaults, JobDocument, parse_job, read_job
from bursar.config.job.job_keys import JOB, RESOURCES
from bursar.config.yaml.yaml_text import (
    DEEPEST,
    MOST_CHARACTERS,
    MOST_JOB_CHARACTERS,
    MOST_VALUES,
    decode,
)
from bursar.core.admission.value_rules import value_problems
from bursar.model.errors import UserError

DEFAULTS = JobDefaults(default_queue="research", now_ms=0)
MIB = 1 << 20


def laughs() -> str:
    lines = ["a0: &a0 [lol, lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    return "\n".join(lines)


TEXTS: dict[str, tuple[str, str]] = {
    "a billion laughs": (laughs(), "yaml-alias"),
    "an alias": ("run: &x hello\nname: *x\n", "yaml-alias"),
    "a list that contains itself": ("run: &x [*x]\n", "yaml-alias"),
    "a merge key that contains itself": ("&x resources: {<<: *x}\nrun: x\n", "yaml-alias"),
    "a merge key": ("run: x\n<<: {name: a}\n", "yaml-alias"),
    "depth of 100,000 in flow style": ("[" * 100_000, "too-deep"),
    "depth of 100,000 in mappings": ("{a: " * 100_000, "too-deep"),
    "depth in block style": ("\n".join(" " * n + "a:" for n in range(1_000)), "too-deep"),
    "50 MB": ("run: " + "x" * (50 * MIB), "too-large"),
    "50 MB of list": ("[" + "a," * (25 * MIB) + "]", "too-large"),
    "more values than allowed": ("[" + "a," * (MOST_VALUES + 1) + "]", "too-large"),
    "one level more than allowed": ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), "too-deep"),
    "an object of Python": ("run: !!python/object/apply:os.system [id]\n", "yaml-tag"),
    "a tag on the whole": ("!!python/object:builtins.dict\nrun: x\n", "yaml-tag"),
    "a tag of its own": ("run: !secret x\n", "yaml-tag"),
    "a second document": ("run: x\n---\nrun: y\n", "two-documents"),
    "NaN": ("run: x\nmax_cost: .nan\n", "wrong-type"),
    "infinity": ("run: x\nmax_cost: .inf\n", "wrong-type"),
    "1e308": ("run: x\nnum_nodes: 1e308\n", "wrong-type"),
    "a million digits": ("run: x\nnum_nodes: " + "9" * 1_000_000 + "\n", "wrong-type"),
    "2^63": ("run: x\nnum_nodes: 9223372036854775808\n", "out-of-range"),
    "a negative number of tasks": ("run: x\nnum_nodes: -1\n", "out-of-range"),
    "an array of a billion": ("run: x\narray: 1000000000\n", "out-of-range"),
    "no GPUs": ("run: x\nresources: {accelerators: 'T4:0'}\n", "out-of-range"),
    "fewer than no GPUs": ("run: x\nresources: {accelerators: 'T4:-1'}\n", "wrong-type"),
    "a fraction that would be rounded": ("run: x\nresources: {cpus: 0.0001}\n", "too-fine"),
    "more hours than there are": ("run: x\nmax_hours: 9000000000000000\n", "out-of-range"),
    "more memory than there is": ("run: x\nresources: {memory: 9000000000000}\n", "out-of-range"),
    "a deadline beyond all time": ("run: x\ndeadline: 999999999999 w\n", "out-of-range"),
    "a NUL": ("run: a\0b\n", "not-yaml"),
    "an escape sequence in a name": ('run: x\nname: "a\\e[2J"\n', "unprintable-text"),
    "a lone surrogate": ("run: a\ud800\n", "not-yaml"),
    "a key that is a list": ("? [a]\n: b\nrun: x\n", "wrong-type"),
    "an unclosed quote": ("run: 'x\n", "not-yaml"),
    "a list": ("- run: x\n", "wrong-type"),
    "a text": ("hello\n", "wrong-type"),
    "nothing": ("", "missing-key"),
    "only a comment": ("# hello\n", "missing-key"),
}


@pytest.mark.parametrize("text", sorted(TEXTS))
def test_hostile_yaml_is_rejected_with_the_right_code(text: str) -> None:
    written, code = TEXTS[text]
    with pytest.raises(UserError) as caught:
        parse_job(written, "job.yaml", DEFAULTS)
    assert caught.value.code == code
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "text", ["a billion laughs", "50 MB of list", "depth of 100,000 in flow style"]
)
def test_rejecting_it_takes_little_memory(text: str) -> None:
    written, _ = TEXTS[text]
    tracemalloc.start()
    with pytest.raises(UserError):
        parse_job(written, "job.yaml", DEFAULTS)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 10 * MIB


def test_a_large_script_is_read() -> None:
    text = "run: |\n" + "  echo hello\n" * 40_000
    assert len(text) < MOST_JOB_CHARACTERS
    assert parse_job(text, "job.yaml", DEFAULTS).recipe.run.count("echo") == 40_000


def test_a_job_is_rejected_at_a_smaller_size_than_a_fleet() -> None:
    text = "run: x  # " + "a" * MOST_JOB_CHARACTERS
    with pytest.raises(UserError, match="at most 1,048,576 are read") as error:
        parse_job(text, "job.yaml", DEFAULTS)
    assert error.value.code == "too-large"


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ("run: x".encode("utf-16"), "UTF-16"),
        (b"run: \xff\xfe", "byte 6"),
        (b"a" * (4 * MOST_CHARACTERS + 1), "bytes"),
    ],
)
def test_bytes_that_are_not_utf8_are_rejected(raw: bytes, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        decode(raw, "job.yaml")


def test_a_byte_order_mark_is_not_part_of_the_first_key() -> None:
    assert parse_job(decode(b"\xef\xbb\xbfrun: x", "j"), "j", DEFAULTS).recipe.run == "x"
    assert parse_job("\ufeffrun: x", "j", DEFAULTS).recipe.run == "x"


@pytest.mark.parametrize(
    "country", ["NO", "no", "y", "on", "off", "1:30", "007", "0x10", "1_000", "1e5"]
)
def test_texts_that_yaml_would_turn_into_something_else_stay_texts(country: str) -> None:
    assert parse_job(f"run: x\nenvs: {{C: {country}}}", "j", DEFAULTS).recipe.envs["C"] == country


# -- what must not reach a command, a path or a table ------------------------------------------------

BAD_NAMES = [
    *(";id", "$(id)", "`id`", "a b", "a\nb", "a\r", "a\tb", "a;b", "a|b", "a&b", "a'b", 'a"b', "a%j"),
    *("--wrap=id", "--uid=0", "-o/../../x", "-", ".", "..", "../a", "a/b", "a\\b", "/etc", "~", "a\0b"),
    *("\x1b[31m", "a\u202eb", "é", "a" * 129, "", " ", "a\n#SBATCH --uid=0", "${HOME}", "*", "a:b"),
]  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_with_a_meaning_in_a_shell_or_path_are_rejected(name: str) -> None:
    with pytest.raises(UserError) as caught:
        read_job({"run": "x", "name": name}, DEFAULTS)
    assert caught.value.code in ("bad-name", "empty-text", "unprintable-text")
    assert str(caught.value).isprintable()


RESERVED = [
    *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "PATH", "BASH_ENV", "ENV", "IFS", "PS4", "SHELLOPTS"),
    *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY", "SLURM_JOB_ID"),
    *("BURSAR_JOB_ID", "BURSAR_TOKEN", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK"),
    *("NODE_RANK", "LOCAL_WORLD_SIZE", "BASH_FUNC_ls", "PYTHONHOME", "GCONV_PATH"),
]  # fmt: skip


@pytest.mark.parametrize("section", ["envs", "secrets"])
@pytest.mark.parametrize("name", RESERVED)
def test_variables_that_loaders_obey_or_the_engine_sets_are_rejected(
    section: str, name: str
) -> None:
    with pytest.raises(UserError) as caught:
        read_job({"run": "x", section: {name: "1"}}, DEFAULTS)
    assert caught.value.code == "reserved-variable"
    assert name in caught.value.problem


@pytest.mark.parametrize(
    "name", ["BASH_FUNC_x%%", "A=B", "A B", "1A", "", "A\n", "é", "A" * 129, "A-B"]
)
def test_invalid_variable_names_are_rejected(name: str) -> None:
    with pytest.raises(UserError) as caught:
        read_job({"run": "x", "envs": {name: "1"}}, DEFAULTS)
    assert caught.value.code == "bad-variable"


@pytest.mark.parametrize(
    "name", ["HOME", "HF_TOKEN", "OMP_NUM_THREADS", "NCCL_DEBUG", "PYTHONPATH"]
)
def test_common_variables_may_be_set(name: str) -> None:
    assert read_job({"run": "x", "envs": {name: "a b\nc"}}, DEFAULTS).recipe.envs == {
        name: "a b\nc"
    }


@pytest.mark.parametrize(
    "target",
    ["/etc/passwd", "../a", "a/../../b", "~/.ssh", "..\\a", "", "a\0b", "-rf", "C:a", "a\nb", "."],
)  # fmt: skip
def test_mounts_stay_inside_the_working_directory(target: str) -> None:
    with pytest.raises(UserError) as caught:
        read_job({"run": "x", "file_mounts": {target: "./a"}}, DEFAULTS)
    assert caught.value.code == "bad-path"


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("s3://bucket/a", "not-supported"),
        ("file:/etc/passwd", "not-supported"),
        ("ext::sh -c id", "not-supported"),
        ("sha256:../../etc", "bad-bundle"),
        ("sha256:" + "A" * 64, "bad-bundle"),
        ({"source": "s3://a", "mode": "MOUNT"}, "not-supported"),
        ("", "wrong-type"),
        (7, "wrong-type"),
    ],
)
def test_sources_are_local_paths_or_hashes(source: object, code: str) -> None:
    for plain in ({"workdir": source}, {"file_mounts": {"a": source}}):
        with pytest.raises(UserError) as caught:
            read_job({"run": "x", **plain}, DEFAULTS)
        assert caught.value.code == code


ODD_VALUES: list[Any] = [
    *(math.nan, math.inf, 1e308, -1, 2**63, 10**4000, True, "", "\ud800", [], {}, [[]], {"a": {}}),
    *(0.1 + 0.2, "x" * 100_000, [None], {"": None}, {"a": None}, b"bytes", object()),
]  # fmt: skip


@pytest.mark.parametrize("odd", range(len(ODD_VALUES)))
def test_any_value_of_any_key_is_read_or_rejected_without_crashing(odd: int) -> None:
    value = ODD_VALUES[odd]
    for key in JOB.keys:
        _read_or_reject({"run": "x", key: value})
    for key in RESOURCES.keys:
        _read_or_reject({"run": "x", "resources": {key: value}})
    _read_or_reject(value)


def _read_or_reject(plain: Any) -> None:
    """Fails on any error but a ``UserError``, and on a job that admission would reject."""
    try:
        document = read_job(plain, DEFAULTS)
    except UserError as error:
        rejection = error
    else:
        assert list(value_problems(document.spec)) == []
        assert read_job(json.loads(document.document) | _secrets(document), DEFAULTS).spec.name
        return
    assert rejection.fix and rejection.code and len(str(rejection)) < 1_000


def _secrets(document: JobDocument) -> dict[str, Any]:
    return {"secrets": dict(document.recipe.secrets)}


@pytest.mark.parametrize(
    "number", ["1e999999999", "9" * 1_000_000, "1E-999999999", ".nan", "-.inf", "1" * 31]
)
def test_huge_numbers_in_a_fleet_file_are_rejected(number: str) -> None:
    text = f"clusters: {{a: {{nodes: {number}}}}}"
    with pytest.raises(UserError) as caught:
        parse_fleet({"fleet.yaml": text})
    assert caught.value.code in ("wrong-type", "out-of-range")
    assert len(str(caught.value)) < 300


# -- random input -------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    [
        "A100:8",
        "T4",
        "mps 25%",
        "mig 1g.10gb",
        "1 h",
        "node",
        "32+",
        "allowed",
        "",
        "\x1b",
        "x" * 300,
    ]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=8), inner),
    max_leaves=6,
)
KEYS_OF_A_JOB = st.sampled_from([*JOB.keys, "accelerators", "nonsense"])
KEYS_OF_RESOURCES = st.sampled_from([*RESOURCES.keys, "infra"])
RESOURCES_OF_A_JOB = st.dictionaries(KEYS_OF_RESOURCES, ANYTHING, max_size=4)


@given(st.dictionaries(KEYS_OF_A_JOB, ANYTHING, max_size=5), RESOURCES_OF_A_JOB)
def test_any_job_is_read_or_rejected(keys: dict[str, Any], resources: dict[str, Any]) -> None:
    _read_or_reject({"run": "x", "resources": resources, **keys})


@given(st.text(alphabet="run: x\n{}[]&*!|>-'\"\t#%@`,?~0.ne\u00e9\x00", max_size=60))
def test_any_text_is_read_or_rejected(text: str) -> None:
    rejection = None
    try:
        parse_job(text, "job.yaml", DEFAULTS)
    except UserError as error:
        rejection = error
    assert rejection is None or rejection.problem.startswith("job.yaml:")
