"""Archives are uploaded once; only tenants that uploaded one learn that it is stored."""

from __future__ import annotations

import hashlib

import pytest

from tests.api.harness import ApiHarness
from tests.api.http_client import job
from tests.api.test_malicious_input import archive, put

BODY = archive(("train.py", b"print('only team A has this')\n"))
NAME = hashlib.sha256(BODY).hexdigest()


def test_an_uploaded_archive_is_reported_as_stored(api: ApiHarness) -> None:
    body = archive(("train.py", b"print('once')\n"))
    name = hashlib.sha256(body).hexdigest()
    assert api.ann.get(f"/v1/bundles/{name}").code == "bundle-not-found"
    assert api.ann.request("HEAD", f"/v1/bundles/{name}").status == 404
    assert put(api.ann, body).status == 201
    response = api.ann.get(f"/v1/bundles/{name}")
    assert (response.status, response.json) == (200, {"sha256": name, "size_bytes": len(body)})
    head = api.ann.request("HEAD", f"/v1/bundles/{name}")
    assert (head.status, head.body) == (200, b"")
    assert api.abe.get(f"/v1/bundles/{name}").status == 200
    assert api.viewer_a.get(f"/v1/bundles/{name}").status == 403


@pytest.mark.parametrize("name", ["0" * 63, "0" * 65, "A" * 64, "..", "uploaded-by"])
def test_a_name_that_is_not_a_sha256_is_not_found(api: ApiHarness, name: str) -> None:
    assert api.admin.get(f"/v1/bundles/{name}").status == 404


def test_another_tenant_cannot_detect_a_stored_archive(api: ApiHarness) -> None:
    assert put(api.ann, BODY).status == 201
    unknown = hashlib.sha256(b"never sent").hexdigest()
    for method, path in (("GET", "/v1/bundles/%s"), ("HEAD", "/v1/bundles/%s")):
        foreign, missing = (api.bob.request(method, path % one) for one in (NAME, unknown))
        assert foreign.status == missing.status == 404
        if method == "GET":
            hidden = foreign.without_request_id.replace(NAME.encode(), unknown.encode())
            assert hidden == missing.without_request_id
    foreign, missing = (
        api.bob.post("/v1/jobs", job("b-train", workdir=f"sha256:{one}")) for one in (NAME, unknown)
    )
    hidden = foreign.without_request_id.replace(NAME.encode(), unknown.encode())
    assert foreign.status == 422 and hidden == missing.without_request_id
    # A tenant that uploads it gets the status of a first upload, and may then use it.
    assert put(api.bob, BODY).status == 201
    assert put(api.bob, BODY).status == 200
    assert (
        api.bob.post("/v1/jobs", job("b-train", workdir=f"sha256:{NAME}", name="b")).status == 201
    )


def test_an_admin_sees_archives_of_tenants_below(api: ApiHarness) -> None:
    put(api.ann, BODY)
    assert api.admin.get(f"/v1/bundles/{NAME}").status == 200
    assert api.gone.get(f"/v1/bundles/{NAME}").status in (403, 404)
