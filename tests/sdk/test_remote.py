"""Checkpoints in object storage: files first, manifest last."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from moto.server import ThreadedMotoServer
from s3fs import S3FileSystem

from bursar.sdk import CheckpointProblem, checkpointing
from bursar.sdk.manifest import MANIFEST
from bursar.sdk.object_store import (
    FolderObjectStore,
    ObjectStore,
    StoreUnreachable,
    UrlObjectStore,
    target_at,
)
from bursar.sdk.remote_store import RemoteCheckpointStore
from tests.sdk.writing import is_exact, writer


@pytest.fixture(scope="module")
def s3_server() -> Iterator[str]:
    """moto's S3 on loopback. Nothing leaves this machine."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(s3_server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    known = {
        "AWS_ENDPOINT_URL": s3_server,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "HOME": str(tmp_path),
    }
    for name, value in known.items():
        monkeypatch.setenv(name, value)
    S3FileSystem.clear_instance_cache()
    bucket = f"bucket-{os.urandom(4).hex()}"
    S3FileSystem().mkdir(bucket)
    yield f"s3://{bucket}/runs/one"
    S3FileSystem.clear_instance_cache()


@pytest.fixture
def memory() -> Iterator[str]:
    yield f"memory://{os.urandom(4).hex()}/runs"
    fsspec.filesystem("memory").store.clear()


@pytest.fixture(params=["folder", "memory", "s3"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "folder":
        return FolderObjectStore(tmp_path / "target")
    return target_at(request.getfixturevalue(request.param))


def test_six_verbs(target: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(b"content")
    assert target.names() == []
    target.put(tmp_path / "here", "a/b")
    target.write("a/c", b"more")
    target.write("d", b"")
    assert target.names() == ["a/b", "a/c", "d"]
    assert target.names("a") == ["a/b", "a/c"]
    assert target.names("nothing") == []
    target.get("a/b", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b"content"
    assert target.read("a/c") == b"more"
    target.remove("a/b")
    target.remove("a/b")
    assert target.names() == ["a/c", "d"]
    with pytest.raises(FileNotFoundError):
        target.read("a/b")
    with pytest.raises(FileNotFoundError):
        target.get("a/b", tmp_path / "gone")


@pytest.mark.parametrize("kind", ["memory", "s3"])
def test_saved_here_and_resumed_there(kind: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(kind)
    with checkpointing(url, keep=2) as run:
        assert run.resume() is None
        for step in (1, 2, 3):
            run.save(step, writer(step))
    with checkpointing(url, keep=2) as run:
        assert run.steps() == [3, 2]
        found = run.resume()
        assert found is not None and found.step == 3 and is_exact(found)
    assert not found.path.exists()


@pytest.mark.parametrize("kind", ["memory", "s3"])
def test_an_upload_that_was_cut_off_is_never_resumed_from(
    kind: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(kind)
    with checkpointing(url) as run:
        run.save(1, writer(1))
        run.save(2, writer(2))
    target = target_at(url)
    target.remove(f"00000002-step-2/{MANIFEST}")
    with checkpointing(url) as run:
        found = run.resume()
        assert found is not None and found.step == 1
        assert run.skipped[0].why == "it has no manifest: its upload was cut off"
        run.save(3, writer(3))
        assert run.steps() == [3, 1]
        newest = run.resume()
        assert newest is not None and newest.step == 3 and is_exact(newest)


@pytest.mark.parametrize("kind", ["memory", "s3"])
def test_what_was_damaged_there_is_skipped(kind: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(kind)
    with checkpointing(url) as run:
        run.save(1, writer(1))
        run.save(2, writer(2))
        target_at(url).write("00000002-step-2/model.bin", b"other")
        found = run.resume()
        assert found is not None and found.step == 1 and is_exact(found)


@pytest.mark.parametrize("kind", ["memory", "s3"])
def test_a_torn_manifest_is_skipped_and_goes_with_the_next_save(
    kind: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(kind)
    torn = f"00000003-step-3/{MANIFEST}"
    with checkpointing(url, keep=2) as run:
        for step in (1, 2, 3):
            run.save(step, writer(step))
        target = target_at(url)
        target.write(torn, target.read(torn)[:-20])
        found = run.resume()
        assert found is not None and found.step == 2 and is_exact(found)
        assert [one.name for one in run.skipped] == ["00000003-step-3"]
        run.save(4, writer(4))
        assert run.steps() == [4, 2], "two whole ones are kept, and the torn one is gone"
        assert {name.split("/")[0] for name in target.names()} == {
            "00000002-step-2",
            "00000004-step-4",
        }


class BreaksAfter(FolderObjectStore):
    """A connection that goes away after so many writes."""

    left = 1_000

    def put(self, path: Path, name: str) -> None:
        self._use()
        super().put(path, name)

    def write(self, name: str, content: bytes) -> None:
        self._use()
        super().write(name, content)

    def _use(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise StoreUnreachable("the connection went away")


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_connection_that_goes_away_is_raised_and_the_older_stays(
    writes: int, tmp_path: Path
) -> None:
    from bursar.sdk.checkpoint_store import Origin

    target = BreaksAfter(tmp_path)
    shelf = RemoteCheckpointStore(target)
    for step in (1, 2):
        draft = shelf.begin(step, 0)
        writer(step)(draft.path)
        if step == 1:
            shelf.commit(draft, Origin("", 0))
            target.left = writes
        else:
            with pytest.raises(StoreUnreachable):
                shelf.commit(draft, Origin("", 0))
    older = [entry for entry in shelf.entries() if entry.step == 1]
    assert shelf.fetch(older[0])[0].step == 1
    shelf.close()


def test_a_library_of_errors_becomes_one() -> None:
    class Odd:
        def cat_file(self, path: str) -> bytes:
            raise RuntimeError("EndpointConnectionError")

    with pytest.raises(StoreUnreachable, match="s3://b: RuntimeError: EndpointConnectionError"):
        UrlObjectStore(Odd(), "b", "s3://b").read("x")


PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}


@pytest.mark.parametrize("scheme", PACKAGES)
def test_without_fsspec_the_package_that_brings_it_is_named(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("fsspec.core", "fsspec"):
        monkeypatch.setitem(sys.modules, name, None)
    said = f"{scheme}://b/x needs the package {PACKAGES[scheme]}.*pip install {PACKAGES[scheme]}"
    with pytest.raises(CheckpointProblem, match=said), checkpointing(f"{scheme}://b/x"):
        pass


@pytest.mark.parametrize("scheme", ["gs", "az", "abfs"])
def test_a_package_that_is_missing_beside_fsspec_is_named(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, PACKAGES[scheme], None)
    said = f"{scheme}://b/x needs the package {PACKAGES[scheme]}"
    with pytest.raises(CheckpointProblem, match=said), checkpointing(f"{scheme}://b/x"):
        pass


def test_a_scheme_nobody_knows_is_refused_kindly() -> None:
    with pytest.raises(CheckpointProblem, match="use a folder or a URL"), checkpointing("no://x"):
        pass
