"""Checkpoints in object storage: the manifest is written last."""

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
    open_object_store,
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
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "folder":
        return FolderObjectStore(tmp_path / "target")
    return open_object_store(request.getfixturevalue(request.param))


def test_the_six_methods(objects: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(b"content")
    assert objects.names() == []
    objects.put(tmp_path / "here", "a/b")
    objects.write("a/c", b"more")
    objects.write("d", b"")
    assert objects.names() == ["a/b", "a/c", "d"]
    assert objects.names("a") == ["a/b", "a/c"]
    assert objects.names("nothing") == []
    objects.get("a/b", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b"content"
    assert objects.read("a/c") == b"more"
    objects.remove("a/b")
    objects.remove("a/b")
    assert objects.names() == ["a/c", "d"]
    with pytest.raises(FileNotFoundError):
        objects.read("a/b")
    with pytest.raises(FileNotFoundError):
        objects.get("a/b", tmp_path / "gone")


@pytest.mark.parametrize("kind", ["memory", "s3"])
def test_a_saved_checkpoint_can_be_resumed(kind: str, request: pytest.FixtureRequest) -> None:
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
def test_an_interrupted_upload_is_never_resumed_from(
    kind: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(kind)
    with checkpointing(url) as run:
        run.save(1, writer(1))
        run.save(2, writer(2))
    objects = open_object_store(url)
    objects.remove(f"00000002-step-2/{MANIFEST}")
    with checkpointing(url) as run:
        found = run.resume()
        assert found is not None and found.step == 1
        assert run.skipped[0].why == "it has no manifest: its upload was interrupted"
        run.save(3, writer(3))
        assert run.steps() == [3, 1]
        newest = run.resume()
        assert newest is not None and newest.step == 3 and is_exact(newest)


@pytest.mark.parametrize("kind", ["memory", "s3"])
def test_a_damaged_checkpoint_is_skipped(kind: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(kind)
    with checkpointing(url) as run:
        run.save(1, writer(1))
        run.save(2, writer(2))
        open_object_store(url).write("00000002-step-2/model.bin", b"other")
        found = run.resume()
        assert found is not None and found.step == 1 and is_exact(found)


@pytest.mark.parametrize("kind", ["memory", "s3"])
def test_a_torn_manifest_is_skipped_and_removed_by_the_next_save(
    kind: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(kind)
    torn = f"00000003-step-3/{MANIFEST}"
    with checkpointing(url, keep=2) as run:
        for step in (1, 2, 3):
            run.save(step, writer(step))
        objects = open_object_store(url)
        objects.write(torn, objects.read(torn)[:-20])
        found = run.resume()
        assert found is not None and found.step == 2 and is_exact(found)
        assert [one.name for one in run.skipped] == ["00000003-step-3"]
        run.save(4, writer(4))
        assert run.steps() == [4, 2], "two complete ones are kept, and the torn one is removed"
        assert {name.split("/")[0] for name in objects.names()} == {
            "00000002-step-2",
            "00000004-step-4",
        }


class BreaksAfter(FolderObjectStore):
    """A connection that breaks after a number of writes."""

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
            raise StoreUnreachable("the connection broke")


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_broken_connection_is_raised_and_the_older_checkpoint_stays(
    writes: int, tmp_path: Path
) -> None:
    from bursar.sdk.checkpoint_store import Origin

    objects = BreaksAfter(tmp_path)
    store = RemoteCheckpointStore(objects)
    for step in (1, 2):
        pending = store.begin(step, 0)
        writer(step)(pending.path)
        if step == 1:
            store.commit(pending, Origin("", 0))
            objects.left = writes
        else:
            with pytest.raises(StoreUnreachable):
                store.commit(pending, Origin("", 0))
    older = [entry for entry in store.entries() if entry.step == 1]
    assert store.fetch(older[0])[0].step == 1
    store.close()


def test_errors_of_client_libraries_become_one_type() -> None:
    class Odd:
        def cat_file(self, path: str) -> bytes:
            raise RuntimeError("EndpointConnectionError")

    with pytest.raises(StoreUnreachable, match="s3://b: RuntimeError: EndpointConnectionError"):
        UrlObjectStore(Odd(), "b", "s3://b").read("x")


PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}


@pytest.mark.parametrize("scheme", PACKAGES)
def test_without_fsspec_the_error_names_the_package(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("fsspec.core", "fsspec"):
        monkeypatch.setitem(sys.modules, name, None)
    message = f"{scheme}://b/x needs the package {PACKAGES[scheme]}.*pip install {PACKAGES[scheme]}"
    with pytest.raises(CheckpointProblem, match=message), checkpointing(f"{scheme}://b/x"):
        pass


@pytest.mark.parametrize("scheme", ["gs", "az", "abfs"])
def test_the_error_names_a_missing_package_of_fsspec(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, PACKAGES[scheme], None)
    message = f"{scheme}://b/x needs the package {PACKAGES[scheme]}"
    with pytest.raises(CheckpointProblem, match=message), checkpointing(f"{scheme}://b/x"):
        pass


def test_an_unknown_scheme_is_rejected() -> None:
    with pytest.raises(CheckpointProblem, match="use a folder or a URL"), checkpointing("no://x"):
        pass
