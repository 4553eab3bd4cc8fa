"""Archives that try to write outside their folder, or to fill the disk."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from bursar.engines.local.supervisor.archive import BadArchive, UnpackLimits, inner_path, unpack
from bursar.model.jobs.run_spec import Mount, RunSpec
from tests.conformance.engine_harness import LocalHarness
from tests.conformance.engine_orders import order, ref
from tests.conformance.engine_suite import output

SMALL = UnpackLimits(total_bytes=1 << 20, members=20, depth=5)
Fill = Callable[[tarfile.TarFile], None]


def member(name: str, text: bytes = b"x", mode: int = 0o644) -> Fill:
    def fill(archive: tarfile.TarFile) -> None:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(text), mode
        archive.addfile(entry, io.BytesIO(text))

    return fill


def special(name: str, kind: bytes, target: str = "") -> Fill:
    def fill(archive: tarfile.TarFile) -> None:
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = kind, target
        archive.addfile(entry)

    return fill


def bundle(folder: Path, *fills: Fill) -> Path:
    """An archive stored under its SHA-256."""
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        for fill in fills:
            fill(archive)
    return stored(folder, text.getvalue())


def stored(folder: Path, text: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha256(text).hexdigest()
    path.write_bytes(text)
    return path


def unpack_into(path: Path, target: Path, limits: UnpackLimits = SMALL) -> None:
    target.mkdir(exist_ok=True)
    unpack(str(path), str(target), limits, lambda: False)


def names_under(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


OUTSIDE = ["../x", "a/../../x", "..", "a/..", "/etc/x", "//proc/self/root/x", "..\\x", "a\\..\\x"]
OUTSIDE += ["\\x", "file:" + "///x", "http:///#/../../etc/x", "C:/x", "a\nb", "a\x7fb", "./../x"]


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_name_outside_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadArchive):
        unpack_into(bundle(tmp_path / "bundles", member("ok"), member(name)), tmp_path / "work")
    assert names_under(tmp_path / "work") <= {"ok"}
    with pytest.raises(BadArchive):
        inner_path(name)


@pytest.mark.parametrize(
    "name", ["%2e%2e%2fx", "....//x", "a..b", ".hidden", "-rf", "$(id)", "~/x"]
)
def test_an_unusual_name_inside_the_folder_is_accepted(tmp_path: Path, name: str) -> None:
    unpack_into(bundle(tmp_path / "bundles", member(name)), tmp_path / "work")
    assert os.path.exists(tmp_path / "work" / name)


SPECIAL = {
    "a link to a file": special("x", tarfile.SYMTYPE, "/etc/passwd"),
    "a link inside": special("x", tarfile.SYMTYPE, "ok"),
    "a link upwards": special("x", tarfile.SYMTYPE, ".."),
    "a hard link inside": special("x", tarfile.LNKTYPE, "ok"),
    "a hard link outside": special("x", tarfile.LNKTYPE, "/etc/passwd"),
    "a device": special("x", tarfile.CHRTYPE),
    "a disk": special("x", tarfile.BLKTYPE),
    "a pipe": special("x", tarfile.FIFOTYPE),
}


@pytest.mark.parametrize("case", SPECIAL)
def test_only_files_and_folders_are_accepted(tmp_path: Path, case: str) -> None:
    path = bundle(tmp_path / "bundles", member("ok"), SPECIAL[case], member("x/inside"))
    with pytest.raises(BadArchive, match="only files and folders"):
        unpack_into(path, tmp_path / "work")
    assert names_under(tmp_path / "work") == {"ok"}


def test_a_small_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    zeros = member("zeros", b"\0" * (4 << 20))
    with pytest.raises(BadArchive, match="more than is allowed"):
        unpack_into(bundle(tmp_path / "bundles", zeros), tmp_path / "work")


def test_an_archive_with_too_many_members_is_refused(tmp_path: Path) -> None:
    many = [member(f"f{number}") for number in range(21)]
    with pytest.raises(BadArchive, match="more than 20 members"):
        unpack_into(bundle(tmp_path / "bundles", *many), tmp_path / "work")


def test_a_deep_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadArchive, match="5 folders deep"):
        unpack_into(bundle(tmp_path / "bundles", member("a/b/c/d/e/f")), tmp_path / "work")


def test_a_header_cannot_fill_the_memory(tmp_path: Path) -> None:
    """An extended header of 64 MiB of zeros, which compresses to a few kilobytes."""
    entry = tarfile.TarInfo("././@PaxHeader")
    entry.type, entry.size = tarfile.XHDTYPE, 64 << 20
    text = gzip.compress(entry.tobuf(tarfile.PAX_FORMAT) + b"\0" * (64 << 20))
    with pytest.raises(BadArchive, match="header of the archive is larger"):
        unpack_into(stored(tmp_path / "bundles", text), tmp_path / "work")


def test_the_same_name_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadArchive, match="twice"):
        unpack_into(
            bundle(tmp_path / "bundles", member("x"), member("./x", b"y")), tmp_path / "work"
        )


@pytest.mark.parametrize(
    "text",
    [b"", b"no archive", gzip.compress(b"x" * 2000, mtime=0)[:-20]],
    ids=["empty", "plain text", "cut off"],
)
def test_a_file_that_is_not_an_archive_is_refused(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(BadArchive, match=r"not a readable tar\.gz"):
        unpack_into(stored(tmp_path / "bundles", text), tmp_path / "work")


def test_a_damaged_bundle_is_refused(tmp_path: Path) -> None:
    path = bundle(tmp_path / "bundles", member("x"))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(BadArchive, match="damaged"):
        unpack_into(path, tmp_path / "work")


@pytest.mark.parametrize("name", ["../../etc/passwd", "x" * 64, "A" * 64, "0" * 63])
def test_a_bundle_name_must_be_a_sha256(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadArchive):
        unpack(str(tmp_path / name), str(tmp_path), SMALL, lambda: False)


def test_the_files_of_a_job_are_unpacked(harness: LocalHarness) -> None:
    bundles = harness.state / "bundles"
    code = bundle(bundles, member("tool.sh", b"echo tool\n", 0o755), member("sub/a", b"A"))
    inputs = bundle(bundles, member("b", b"B"))
    listener = harness.open()
    mounts = (Mount(target="~/inputs", bundle=inputs.name),)
    recipe = RunSpec(run="./tool.sh; cat sub/a inputs/b", workdir=code.name, mounts=mounts)
    listener.engine.start(order("j-1", recipe))
    assert listener.ended(ref("j-1")).code == 0
    assert output(listener, ref("j-1")) == "tool\nAB"


@pytest.mark.parametrize("target", ["/data", "../data", "a/../../b"])
def test_a_mount_stays_in_the_working_directory(harness: LocalHarness, target: str) -> None:
    inputs = bundle(harness.state / "bundles", member("b", b"B"))
    listener = harness.open()
    recipe = RunSpec(run="echo ran", mounts=(Mount(target=target, bundle=inputs.name),))
    listener.engine.start(order("j-1", recipe))
    assert "working directory" in listener.ended(ref("j-1")).detail
    assert output(listener, ref("j-1")) == ""


@pytest.mark.parametrize("name", ["0" * 64, "../bundles/x"])
def test_a_bundle_that_is_not_there_ends_the_attempt(harness: LocalHarness, name: str) -> None:
    listener = harness.open()
    listener.engine.start(order("j-1", RunSpec(run="echo ran", workdir=name)))
    ended = listener.ended(ref("j-1"))
    assert ended.code is None and "could not be unpacked" in ended.detail
