"""Malicious input: all of it is rejected with a reason, and none of it is stored or run."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from bursar.api.endpoints.jobs.bundles import check_archive
from bursar.api.http.body import MAX_DEPTH, parse_json
from bursar.api.http.errors import HttpRefusal
from tests.api.harness import ApiHarness
from tests.api.http_client import HttpClient, Response, job


def is_rejected(response: Response) -> bool:
    return response.status in (400, 413, 415, 422) and "Traceback" not in response.body.decode()


def send(client: HttpClient, body: bytes, media: str = "application/json") -> Response:
    return client.post("/v1/jobs", body, Content_Type=media)


# -- quota and priority (T3), money (T4) -------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        {"resources": {"accelerators": "T4:-1"}},
        {"resources": {"accelerators": "T4:0"}},
        {"resources": {"accelerators": "T4:9223372036854775808"}},
        {"resources": {"accelerators": "T4:1e308"}},
        {"resources": {"accelerators": "T4:0.5"}},
        {"resources": {"accelerators": "T4:NaN"}},
        {"resources": {"cpus": -1}},
        {"resources": {"cpus": 1e308}},
        {"resources": {"memory": -5}},
        {"num_nodes": 0},
        {"num_nodes": -1},
        {"num_nodes": 2**63},
        {"num_nodes": 1.5},
        {"num_nodes": True},
        {"array": 10**9},
        {"array": 0},
        {"priority": "no-such-class"},
        {"priority": 2**31},
        {"priority_class": "high"},
        {"queue": "acme"},
        {"queue": ""},
        {"queue": ["a-train"]},
        {"max_hours": -1},
        {"max_hours": 1e300},
        {"retries": -1},
        {"retries": 10**12},
        {"price": 0},
        {"micro_usd_per_hour": 0},
        {"hours": 0},
        {"owner": "root"},
        {"tenant": "team-b"},
        {"user": "root"},
        {"id": "j-mine"},
        {"started_at_ms": 0},
        {"submitted_at_ms": 0},
        {"instance_type": "free"},
        {"depends_on": ["x"] * 200_000},
        {"depends_on": "j-zzzzzzzzzz"},
    ],
    ids=str,
)
def test_false_values_in_a_job_are_rejected(api: ApiHarness, more: dict[str, Any]) -> None:
    assert is_rejected(api.ann.post("/v1/jobs", {**job("a-train"), **more}))


def test_the_owner_is_the_user_of_the_token(api: ApiHarness) -> None:
    job_id = api.ann.submit("a-train", envs={"OWNER": "root"}, labels={"owner": "root"})
    assert api.ann.get(f"/v1/jobs/{job_id}").json["owner"] == "ann"


def test_cancelling_is_idempotent(api: ApiHarness) -> None:
    job_id = api.ann.submit("a-train")
    for _ in range(2):
        assert api.ann.post(f"/v1/jobs/{job_id}:cancel").status == 200
    api.wait_for_state(job_id, "cancelled")
    events = api.ann.get(f"/v1/jobs/{job_id}/events").json["items"]
    assert [one["type"] for one in events].count("JobCancelled") == 1


# -- paths (T6) --------------------------------------------------------------------------------------

TRAVERSALS = [
    *("../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e%2f%2e%2e%2fetc%2fpasswd"),
    *("..%252f..%252fetc", "..\\..\\etc", "..%5c..%5cetc", "//proc/self/root/etc/passwd"),
    *("/etc/passwd", "file:%2f%2f%2fetc%2fpasswd", "http:///%23/../../etc", "%00", "x%00.txt"),
    *("....//....//etc", ".", "..", "~root", "%c0%ae%c0%ae%c0%af", "j-%0d%0aX:%20y", "*", "?"),
]


@pytest.mark.parametrize("path", TRAVERSALS)
def test_no_id_reads_a_file(api: ApiHarness, path: str) -> None:
    for shape in ("/v1/jobs/{}", "/v1/jobs/{}/logs", "/v1/jobs/{}/events", "/v1/schema/{}"):
        response = api.ann.get(shape.format(path))
        assert response.status in (200, 400, 401, 403, 404, 422)
        assert b"root:" not in response.body
        if response.status == 200:
            assert set(response.json) == {"items", "next_cursor"}


@pytest.mark.parametrize("path", [one for one in TRAVERSALS if one not in (".", "..", "?")])
def test_an_archive_cannot_be_named_by_a_path(api: ApiHarness, path: str) -> None:
    before = sorted(api.folder.rglob("*"))
    response = api.ann.request(
        "PUT", f"/v1/bundles/{path}", b"x", {"Content-Type": "application/gzip"}
    )
    assert response.status in (400, 404, 422)
    after = [one for one in api.folder.rglob("*") if one not in before]
    assert [one for one in after if one.name != "bundles" and "output" not in one.parts] == []


# -- archives (T6) -----------------------------------------------------------------------------------


def archive(*members: tarfile.TarInfo | tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for member in members:
            if isinstance(member, tuple):
                header = tarfile.TarInfo(member[0])
                header.size = len(member[1])
                tar.addfile(header, io.BytesIO(member[1]))
            else:
                tar.addfile(member)
    return buffer.getvalue()


def special(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.type, header.linkname = kind, link
    return header


def put(client: HttpClient, body: bytes, name: str | None = None) -> Response:
    sha256 = name or hashlib.sha256(body).hexdigest()
    return client.request(
        "PUT", f"/v1/bundles/{sha256}", body, {"Content-Type": "application/gzip"}
    )


def bomb() -> bytes:
    """A small file that unpacks to more than the limit."""
    header = tarfile.TarInfo("zeros")
    header.size = 80 * 2**20
    return gzip.compress(header.tobuf() + bytes(80 * 2**20) + bytes(1024))


def long_header() -> bytes:
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 8 * 2**20
    return gzip.compress(header.tobuf() + b"x" * (8 * 2**20) + bytes(1024))


BAD_ARCHIVES: dict[str, bytes] = {
    "a path above": archive(("../x", b"1")),
    "a path above in the middle": archive(("a/../../x", b"1")),
    "an absolute path": archive(("/etc/x", b"1")),
    "a backslash": archive(("..\\x", b"1")),
    "a line break": archive(("a\nb", b"1")),
    "a symbolic link": archive(special("x", tarfile.SYMTYPE, "/etc/passwd")),
    "a hard link": archive(special("x", tarfile.LNKTYPE, "../x")),
    "a device": archive(special("x", tarfile.CHRTYPE)),
    "a block device": archive(special("x", tarfile.BLKTYPE)),
    "a pipe": archive(special("x", tarfile.FIFOTYPE)),
    "a long name": archive(("x" * 2_000, b"1")),
    "a bomb": bomb(),
    "a header that fills the memory": long_header(),
    "not gzip": b"PK\x03\x04 not a tar",
    "cut short": archive(("x", bytes(100_000)))[:60],
    "nothing": b"",
    "gzip of no tar": gzip.compress(b"x" * 5_000),
}


@pytest.mark.parametrize("name", BAD_ARCHIVES)
def test_a_bad_archive_is_rejected_and_not_stored(api: ApiHarness, name: str) -> None:
    body = BAD_ARCHIVES[name]
    response = put(api.ann, body)
    if name == "nothing":
        assert response.status in (400, 422)
    else:
        assert (response.status, response.code) == (422, "bad-bundle"), response.body
    stored = api.folder / "bundles"
    assert not stored.exists() or hashlib.sha256(body).hexdigest() not in {
        one.name for one in stored.iterdir()
    }


def test_a_good_archive_is_stored_once_and_privately(api: ApiHarness) -> None:
    body = archive(("src/train.py", b"print(1)\n"), special("src", tarfile.DIRTYPE))
    sha256 = hashlib.sha256(body).hexdigest()
    first, again = put(api.ann, body), put(api.ann, body)
    assert (first.status, again.status) == (201, 200)
    assert first.json == {"sha256": sha256, "size_bytes": len(body)}
    stored = api.folder / "bundles" / sha256
    assert stored.read_bytes() == body
    assert stored.stat().st_mode & 0o777 == 0o600
    assert stored.parent.stat().st_mode & 0o777 == 0o700
    assert not [one for one in stored.parent.iterdir() if one.name.startswith(".")]
    assert api.ann.post("/v1/jobs", job("a-train", workdir=f"sha256:{sha256}")).status == 201


def test_an_archive_with_a_wrong_sha256_is_rejected(api: ApiHarness) -> None:
    response = put(api.ann, archive(("x", b"1")), name="0" * 64)
    assert response.code == "bad-bundle" and "SHA-256" in response.json["detail"]


def test_too_many_archive_members_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bursar.api.endpoints.jobs.bundles.MAX_MEMBERS", 10)
    path = tmp_path / "many"
    path.write_bytes(archive(*((f"f{n}", b"") for n in range(11))))
    with pytest.raises(HttpRefusal, match="more than 10 files"):
        check_archive(path)


# -- commands and options (T7) -----------------------------------------------------------------------

INJECTIONS = [
    *(";id", "$(id)", "`id`", "a\nb", "a\r\nb", "--wrap=id", "-o/../../x", "--uid=0", "a\x00b"),
    *("#SBATCH --uid=0", "a\n#SBATCH --uid=0", "\x1b]52;c;aWQ=\x07", "a" * 100_000, "", " "),
]


@pytest.mark.parametrize("text", INJECTIONS, ids=lambda text: repr(text)[:30])
def test_a_job_name_with_control_characters_is_rejected(api: ApiHarness, text: str) -> None:
    response = api.ann.post("/v1/jobs", job("a-train", name=text))
    assert is_rejected(response) or (response.status == 201 and text.isprintable() and text.strip())


@pytest.mark.parametrize(
    "key",
    [
        *("LD_PRELOAD", "BASH_ENV", "PATH=x", "A B", "", "1A", "A\nB", "BASH_FUNC_x%%", "A=B", "é"),
        *("CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID"),
    ],
)
def test_dangerous_environment_names_are_rejected(api: ApiHarness, key: str) -> None:
    assert is_rejected(api.ann.post("/v1/jobs", job("a-train", envs={key: "x"})))


@pytest.mark.parametrize(
    "workdir", ["../x", "/etc", "~", "ext::sh -c id", "file:" + "///etc", "git@x:y", "-x", "a\0b"]
)
def test_a_local_path_as_workdir_is_rejected(api: ApiHarness, workdir: str) -> None:
    assert is_rejected(api.ann.post("/v1/jobs", job("a-train", workdir=workdir)))


# -- JSON and YAML (T8) ------------------------------------------------------------------------------

LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)

BAD_YAML: dict[str, bytes] = {
    "a billion laughs": LAUGHS.encode(),
    "laughs in a value": (LAUGHS + "envs: {X: *i}\nrun: x\nqueue: a-train\n").encode(),
    "an object of Python": b"run: !!python/object/apply:os.system ['id']\nqueue: a-train\n",
    "a loop of merges": b"x: &x\n  <<: *x\nrun: y\n",
    "deep brackets": b"run: " + b"[" * 20_000,
    "deep mappings": b"{a: " * 20_000,
    "deep lists": b"- " * 20_000 + b"x",
    "duplicate keys": b"run: a\nrun: b\nqueue: a-train\n",
    "no mapping": b"- a\n- b\n",
    "nothing": b"",
    "tabs": b"run:\n\t- x\n",
    "UTF-16": "run: x\nqueue: a-train\n".encode("utf-16"),
    "half a character": b"run: \xc3\n",
    "an unknown key": b"run: x\nqueue: a-train\naccelerator: T4:1\n",
    "two documents": b"run: x\nqueue: a-train\n---\nrun: y\n",
    "a huge number": b"run: x\nqueue: a-train\nnum_nodes: 1" + b"0" * 1_000_000,
    "not a number": b"run: x\nqueue: a-train\nnum_nodes: .nan\n",
    "a zero character": b"run: x\x00\nqueue: a-train\n",
}


@pytest.mark.parametrize("name", BAD_YAML)
def test_bad_yaml_is_rejected(api: ApiHarness, name: str) -> None:
    response = send(api.ann, BAD_YAML[name], "application/yaml")
    assert is_rejected(response), response.body
    assert response.json["fix"]


def test_a_name_that_looks_like_a_boolean_stays_text(api: ApiHarness) -> None:
    response = send(api.ann, b"run: x\nqueue: a-train\nname: no\n", "application/yaml")
    assert api.ann.get(f"/v1/jobs/{response.json['id']}").json["name"] == "no"


BAD_JSON: dict[str, bytes] = {
    "nothing": b"",
    "a list": b"[]",
    "null": b"null",
    "a number": b"7",
    "NaN": b'{"run":"x","queue":"a-train","num_nodes":NaN}',
    "Infinity": b'{"run":"x","queue":"a-train","num_nodes":-Infinity}',
    "a float beyond floats": b'{"run":"x","queue":"a-train","max_hours":1e999}',
    "a million digits": b'{"run":"x","queue":"a-train","num_nodes":1' + b"0" * 900_000 + b"}",
    "depth": b'{"run":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "depth without an end": b"[" * 500_000,
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "duplicate keys": b'{"run":"x","run":"y","queue":"a-train"}',
    "duplicate keys inside": b'{"run":"x","queue":"a-train","envs":{"A":"1","A":"2"}}',
    "half a character": b'{"run":"\\ud800","queue":"a-train"}',
    "half a character in a key": b'{"run":"x","queue":"a-train","envs":{"\\udfff":"x"}}',
    "a zero character": b'{"run":"x\\u0000","queue":"a-train"}',
    "UTF-16": '{"run":"x","queue":"a-train"}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"run":"x","queue":"a-train"}',
    "a comment": b'{"run":"x",/* */"queue":"a-train"}',
    "two documents": b'{"run":"x"}{"run":"y"}',
    "too large": b'{"run":"' + b"x" * (2 * 2**20) + b'"}',
    "a key of another tool": b'{"run":"x","queue":"a-train","hostPath":"/"}',
    "an unknown key": b'{"run":"x","queue":"a-train","accelerator":"T4"}',
    "a prototype": b'{"run":"x","queue":"a-train","__proto__":{"admin":true}}',
}


@pytest.mark.parametrize("name", BAD_JSON)
def test_bad_json_is_rejected(api: ApiHarness, name: str) -> None:
    response = send(api.ann, BAD_JSON[name])
    assert is_rejected(response), response.body
    assert response.json["fix"]


def test_a_misspelt_key_gets_a_suggestion(api: ApiHarness) -> None:
    response = send(api.ann, b'{"run":"x","queue":"a-train","num_node":1}')
    assert "num_nodes" in response.json["fix"]


def test_brackets_in_strings_do_not_count_as_depth() -> None:
    brackets = json.dumps({"run": "[" * 1_000 + '"' + "{" * 1_000})
    assert parse_json(brackets.encode())["run"].startswith("[[[")
    deep = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert parse_json(deep.encode())
    with pytest.raises(HttpRefusal, match="nested"):
        parse_json(f"[{deep}]".encode())


def test_escaped_backslashes_are_accepted() -> None:
    assert parse_json(b'{"run":"printf \\"\\\\u0000 \\\\ud800\\""}')


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "application/json", "Content-Encoding": "gzip"}, 415),
        ({}, 415),
    ],
)
def test_other_content_types_are_rejected(
    api: ApiHarness, headers: dict[str, str], status: int
) -> None:
    assert api.ann.request("POST", "/v1/jobs", b"{}", headers).status == status


def test_the_server_works_after_all_bad_input(api: ApiHarness) -> None:
    assert api.ann.post("/v1/plan", job("a-train")).status == 200
    assert api.admin.get("/v1/health").json["halted"] == ""
