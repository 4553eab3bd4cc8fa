"""An archive is sent once; that it is here is told to those who sent it and to nobody else."""

from __future__ import annotations

import hashlib

import pytest

from tests.api.asking import job
from tests.api.scene import Scene
from tests.api.test_corpus import archive, put

BODY = archive(("train.py", b"print('only team A has this')\n"))
NAME = hashlib.sha256(BODY).hexdigest()


def test_what_was_sent_need_not_be_sent_again(scene: Scene) -> None:
    body = archive(("train.py", b"print('once')\n"))
    name = hashlib.sha256(body).hexdigest()
    assert scene.ann.get(f"/v1/bundles/{name}").code == "bundle-not-found"
    assert scene.ann.ask("HEAD", f"/v1/bundles/{name}").status == 404
    assert put(scene.ann, body).status == 201
    told = scene.ann.get(f"/v1/bundles/{name}")
    assert (told.status, told.json) == (200, {"sha256": name, "size_bytes": len(body)})
    head = scene.ann.ask("HEAD", f"/v1/bundles/{name}")
    assert (head.status, head.body) == (200, b"")
    assert scene.abe.get(f"/v1/bundles/{name}").status == 200
    assert scene.viewer_a.get(f"/v1/bundles/{name}").status == 403


@pytest.mark.parametrize("name", ["0" * 63, "0" * 65, "A" * 64, "..", "uploaded-by"])
def test_only_a_name_of_an_archive_is_looked_for(scene: Scene, name: str) -> None:
    assert scene.admin.get(f"/v1/bundles/{name}").status == 404


def test_another_tenant_cannot_learn_that_it_is_here(scene: Scene) -> None:
    assert put(scene.ann, BODY).status == 201
    nothing = hashlib.sha256(b"never sent").hexdigest()
    for method, path in (("GET", "/v1/bundles/%s"), ("HEAD", "/v1/bundles/%s")):
        theirs, nobodys = (scene.bob.ask(method, path % one) for one in (NAME, nothing))
        assert theirs.status == nobodys.status == 404
        if method == "GET":
            hidden = theirs.without_request_id.replace(NAME.encode(), nothing.encode())
            assert hidden == nobodys.without_request_id
    theirs, nobodys = (
        scene.bob.post("/v1/jobs", job("b-train", workdir=f"sha256:{one}"))
        for one in (NAME, nothing)
    )
    hidden = theirs.without_request_id.replace(NAME.encode(), nothing.encode())
    assert theirs.status == 422 and hidden == nobodys.without_request_id
    # Whoever sends it himself is answered as the first, and may use it from then on.
    assert put(scene.bob, BODY).status == 201
    assert put(scene.bob, BODY).status == 200
    assert (
        scene.bob.post("/v1/jobs", job("b-train", workdir=f"sha256:{NAME}", name="b")).status == 201
    )


def test_whoever_stands_above_sees_what_was_sent_below(scene: Scene) -> None:
    put(scene.ann, BODY)
    assert scene.admin.get(f"/v1/bundles/{NAME}").status == 200
    assert scene.gone.get(f"/v1/bundles/{NAME}").status in (403, 404)
