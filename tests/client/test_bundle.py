"""Bundles: archives of local files for a job."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from bursar.client import bundle as bundles
from bursar.client.bundle import Bundle, pack, pack_files
from bursar.client.errors import BadBundle
from bursar.client.ignore_rules import rules_of


def names_in(bundle: Bundle) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(bundle.content), mode="r:gz") as archive:
        return [member.name for member in archive]


def content_of(bundle: Bundle, name: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(bundle.content), mode="r:gz") as archive:
        file = archive.extractfile(name)
        assert file is not None
        return file.read()


def write_files(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return folder


def test_identical_files_make_identical_bundles(tmp_path: Path) -> None:
    one = write_files(tmp_path / "one", "b.py", "a/x.py", "a/y.py")
    two = write_files(tmp_path / "two", "a/y.py", "b.py", "a/x.py")
    os.utime(two / "b.py", (1, 1))
    assert pack(one) == pack(two)
    assert names_in(pack(one)) == ["a", "a/x.py", "a/y.py", "b.py"]
    (two / "b.py").write_text("other")
    assert pack(one).sha256 != pack(two).sha256


def test_an_archive_has_no_owner_or_time(tmp_path: Path) -> None:
    script = write_files(tmp_path, "run.sh") / "run.sh"
    script.chmod(0o700)
    with tarfile.open(fileobj=io.BytesIO(pack(tmp_path).content), mode="r:gz") as archive:
        [member] = archive.getmembers()
    metadata = (member.uid, member.gid, member.uname, member.gname, member.mtime)
    assert metadata == (0, 0, "", "", 0)
    assert member.mode == 0o755


def test_ignore_files_are_honoured(tmp_path: Path) -> None:
    write_files(
        tmp_path, "keep.py", "data/big.bin", "logs/a.log", "deep/b.log", ".git/config", "x.pyc"
    )
    (tmp_path / ".gitignore").write_text("*.log\n")
    assert names_in(pack(tmp_path)) == [
        ".gitignore",
        "data",
        "data/big.bin",
        "deep",
        "keep.py",
        "logs",
    ]
    (tmp_path / ".bursarignore").write_text("# large things\n/data/\n.gitignore\n")
    assert names_in(pack(tmp_path)) == ["deep", "deep/b.log", "keep.py", "logs", "logs/a.log"]


@pytest.mark.parametrize(
    ("rules", "path", "is_folder", "covered"),
    [
        (["*.log"], "a/b/c.log", False, True),
        (["*.log"], "c.logs", False, False),
        (["/a.txt"], "a.txt", False, True),
        (["/a.txt"], "b/a.txt", False, False),
        (["build/"], "build", True, True),
        (["build/"], "build", False, False),
        (["build/"], "x/build", True, True),
        (["a/*.py"], "a/b.py", False, True),
        (["a/*.py"], "a/b/c.py", False, False),
        (["a/**/c.py"], "a/c.py", False, True),
        (["a/**/c.py"], "a/x/y/c.py", False, True),
        (["a/**"], "a/x/y", False, True),
        (["*.py", "!keep.py"], "keep.py", False, False),
        (["*.py", "!keep.py"], "drop.py", False, True),
        (["f?.txt"], "fa.txt", False, True),
        (["f[ab].txt"], "fb.txt", False, True),
        (["f[!ab].txt"], "fb.txt", False, False),
        (["a+b.txt"], "aab.txt", False, False),
        (["# *.py", ""], "x.py", False, False),
    ],
)
def test_ignore_rules_match_like_gitignore(
    rules: list[str], path: str, is_folder: bool, covered: bool
) -> None:
    assert rules_of(rules).covers(path, is_folder=is_folder) is covered


def test_a_bundle_that_is_too_large_names_the_largest_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "MOST_BYTES", 3 << 20)
    write_files(tmp_path, "small.py")
    (tmp_path / "weights.bin").write_bytes(bytes(4 << 20))
    with pytest.raises(
        BadBundle, match=r"4\.0 MiB; at most 3 MiB.*weights\.bin \(4\.0 MiB\)"
    ) as bad:
        pack(tmp_path)
    assert ".bursarignore" in bad.value.fix


def test_links_become_files_and_links_outside_are_rejected(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "work", "real.txt")
    (folder / "again.txt").symlink_to("real.txt")
    assert content_of(pack(folder), "again.txt") == b"real.txt"
    write_files(tmp_path, "secret.txt")
    (folder / "out.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(BadBundle, match="is a link to"):
        pack(folder)


def test_a_pipe_is_rejected(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadBundle, match="neither a file nor a folder"):
        pack(tmp_path)


def test_a_missing_path_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BadBundle, match="cannot be read: No such file"):
        pack(tmp_path / "none")


def test_explicit_files_override_those_of_the_folder(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "work", "a.txt", "b.txt")
    other = write_files(tmp_path, "other.txt") / "other.txt"
    bundle = pack_files({"": folder, "a.txt": other, "deep/c.txt": b"content"})
    assert names_in(bundle) == ["a.txt", "b.txt", "deep/c.txt"]
    assert content_of(bundle, "a.txt") == b"other.txt"
    assert content_of(bundle, "deep/c.txt") == b"content"
