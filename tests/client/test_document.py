"""Job documents: changes to their text, and the local files that they name."""

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


def test_changes_leave_other_lines_unchanged() -> None:
    changes = {
        "envs": {"EPOCHS": "5"},
        "name": "x: y",
        "resources": {"cpus": 1},
        "workdir": "sha256:a",
    }
    changed = Document(text=TEXT).with_keys(changes).text
    assert yaml.safe_load(changed) == {**changes, "run": "python train.py\n"}
    assert changed.splitlines().index("run: |") == TEXT.splitlines().index("run: |")
    assert changed.splitlines()[:2] == ["# trains the ranker", 'name: "x: y"   # short']


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
def test_a_key_is_added_to_any_yaml_style(text: str) -> None:
    before = yaml.safe_load(text) or {}
    changed = Document(text=text).with_keys({"queue": "vision"}).text
    assert yaml.safe_load(changed) == {**before, "queue": "vision"}


@pytest.mark.parametrize("text", ["a: [", "- a\n- b\n", "just words", "\tx: 1"])
def test_an_unreadable_document_is_sent_unchanged(text: str) -> None:
    document = Document(text=text)
    assert document.with_keys({"queue": "q"}).text == text
    assert document.keys() is None


def test_json_stays_json() -> None:
    document = read_document({"run": "x", "envs": {"A": "ä"}}).with_keys({"queue": "q"})
    assert document.content_type == "application/json"
    assert document.keys() == {"run": "x", "envs": {"A": "ä"}, "queue": "q"}


def test_gpus_and_variables_are_merged() -> None:
    document = Document(text="resources: {cpus: 4}\nenvs: {A: 1}\nsecrets: {S: x}\nrun: x\n")
    changes = {"gpus": 2, "envs": {"B": "2"}, "secrets": {"T": "y"}, "queue": "q"}
    assert changes_for(changes, document) == {
        "resources": {"cpus": 4, "accelerators": 2},
        "envs": {"A": 1, "B": "2"},
        "secrets": {"S": "x", "T": "y"},
        "queue": "q",
    }


def test_texts_paths_and_mappings_are_distinguished(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("run: x\n")
    assert read_document("run: x").name == ""
    assert read_document(str(path)).folder == tmp_path
    assert read_document(path).text == "run: x\n"
    with pytest.raises(Invalid, match=r"none\.yaml cannot be read"):
        read_document("none.yaml")
    with pytest.raises(Invalid, match="cannot be written as JSON"):
        read_document({"run": object()})


def test_errors_name_the_file_of_the_user() -> None:
    document = Document(text="x", name="jobs/train.yaml")
    with pytest.raises(Invalid) as refused, naming(document):
        raise Invalid("job.yaml:4:3: no.", fix="yes.", code="unknown-key")
    assert refused.value.problem == "jobs/train.yaml:4:3: no."


def test_folders_become_bundles_and_files_join_the_working_directory(
    tmp_path: Path,
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "inputs").mkdir()
    (tmp_path / "a.csv").write_text("1")
    text = (
        "workdir: src\nfile_mounts:\n  data: inputs\n  conf/a.csv: a.csv\n"
        "  sent: sha256:aa\n  cloud: s3://bucket/x\n"
    )
    local = find_local(Document(text=text, folder=tmp_path))
    assert local.working == {"": tmp_path / "src", "conf/a.csv": tmp_path / "a.csv"}
    assert local.mounts == {
        "data": tmp_path / "inputs",
        "sent": "sha256:aa",
        "cloud": "s3://bucket/x",
    }


def test_mounts_outside_the_workdir_are_left_to_the_server(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1")
    text = "file_mounts:\n  ../a.csv: a.csv\n  /etc/a.csv: a.csv\n"
    local = find_local(Document(text=text, folder=tmp_path))
    assert local.working == {}
    assert set(local.mounts or {}) == {"../a.csv", "/etc/a.csv"}


def test_a_workdir_that_is_not_a_folder_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1")
    for workdir in ("a.csv", "none"):
        with pytest.raises(BadBundle, match="is not a folder"):
            find_local(Document(text=f"workdir: {workdir}\n", folder=tmp_path))


def test_a_file_cannot_be_added_to_an_uploaded_workdir(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1")
    text = "workdir: sha256:aa\nfile_mounts: {a.csv: a.csv}\n"
    with pytest.raises(BadBundle, match="already uploaded"):
        find_local(Document(text=text, folder=tmp_path))
