"""Changes to a job's text, and the files that it speaks of."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from bursar.client.document import Document, changes_for, naming, read_document
from bursar.client.errors import BadBundle, Invalid
from bursar.client.local_files import find_local

TEXT = """\
# trains the ranker
name: ranker   # short
envs:
  EPOCHS: 3
  # and more
  NOTE: |
    two
    lines

resources: {accelerators: A100:8,
            cpus: 4}
workdir:
run: |
  python train.py
"""


def test_changed_values_leave_every_other_line_where_it_was() -> None:
    changes = {
        "envs": {"EPOCHS": "5"},
        "name": "x: y",
        "resources": {"cpus": 1},
        "workdir": "sha256:a",
    }
    made = Document(text=TEXT).with_keys(changes).text
    assert yaml.safe_load(made) == {**changes, "run": "python train.py\n"}
    assert made.splitlines().index("run: |") == TEXT.splitlines().index("run: |")
    assert made.splitlines()[:2] == ["# trains the ranker", 'name: "x: y"   # short']


@pytest.mark.parametrize(
    "text",
    [
        "run: x",
        "run: x\n",
        "---\nrun: x\n...\n",
        "{run: x}",
        '{"run": "x"}\n',
        "run: |\n  x\n  y\n",
        "",
    ],
)
def test_a_new_key_is_added_to_any_form(text: str) -> None:
    before = yaml.safe_load(text) or {}
    made = Document(text=text).with_keys({"queue": "vision"}).text
    assert yaml.safe_load(made) == {**before, "queue": "vision"}


@pytest.mark.parametrize("text", ["a: [", "- a\n- b\n", "just words", "\tx: 1"])
def test_what_cannot_be_read_goes_to_the_server_as_it_is(text: str) -> None:
    document = Document(text=text)
    assert document.with_keys({"queue": "q"}).text == text
    assert document.keys() is None


def test_json_stays_json() -> None:
    document = read_document({"run": "x", "envs": {"A": "ä"}}).with_keys({"queue": "q"})
    assert document.content_type == "application/json"
    assert document.keys() == {"run": "x", "envs": {"A": "ä"}, "queue": "q"}


def test_gpus_and_variables_join_what_is_there() -> None:
    document = Document(text="resources: {cpus: 4}\nenvs: {A: 1}\nsecrets: {S: x}\nrun: x\n")
    changes = {"gpus": 2, "envs": {"B": "2"}, "secrets": {"T": "y"}, "queue": "q"}
    assert changes_for(changes, document) == {
        "resources": {"cpus": 4, "accelerators": 2},
        "envs": {"A": 1, "B": "2"},
        "secrets": {"S": "x", "T": "y"},
        "queue": "q",
    }


def test_text_paths_and_mappings_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("run: x\n")
    assert read_document("run: x").name == ""
    assert read_document(str(path)).folder == tmp_path
    assert read_document(path).text == "run: x\n"
    with pytest.raises(Invalid, match=r"none\.yaml cannot be read"):
        read_document("none.yaml")
    with pytest.raises(Invalid, match="cannot be written as JSON"):
        read_document({"run": object()})


def test_the_servers_complaint_names_the_users_file() -> None:
    document = Document(text="x", name="jobs/train.yaml")
    with pytest.raises(Invalid) as refused, naming(document):
        raise Invalid("job.yaml:4:3: no.", fix="yes.", code="unknown-key")
    assert refused.value.problem == "jobs/train.yaml:4:3: no."


def test_folders_travel_as_bundles_and_single_files_with_the_working_directory(
    tmp_path: Path,
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "inputs").mkdir()
    (tmp_path / "a.csv").write_text("1")
    text = (
        "workdir: src\nfile_mounts:\n  data: inputs\n  conf/a.csv: a.csv\n"
        "  sent: sha256:aa\n  cloud: s3://bucket/x\n"
    )
    found = find_local(Document(text=text, folder=tmp_path))
    assert found.working == {"": tmp_path / "src", "conf/a.csv": tmp_path / "a.csv"}
    assert found.mounts == {
        "data": tmp_path / "inputs",
        "sent": "sha256:aa",
        "cloud": "s3://bucket/x",
    }


def test_places_that_lead_elsewhere_are_left_for_the_server_to_refuse(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1")
    text = "file_mounts:\n  ../a.csv: a.csv\n  /etc/a.csv: a.csv\n"
    found = find_local(Document(text=text, folder=tmp_path))
    assert found.working == {}
    assert set(found.mounts or {}) == {"../a.csv", "/etc/a.csv"}


def test_a_working_directory_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1")
    for workdir in ("a.csv", "none"):
        with pytest.raises(BadBundle, match="is not a folder"):
            find_local(Document(text=f"workdir: {workdir}\n", folder=tmp_path))


def test_a_file_cannot_join_what_was_sent_before(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1")
    text = "workdir: sha256:aa\nfile_mounts: {a.csv: a.csv}\n"
    with pytest.raises(BadBundle, match="already uploaded"):
        find_local(Document(text=text, folder=tmp_path))
