"""The server address and the token: order of sources, and which server gets the token."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bursar.client.address import Address, find_address, find_token, read_address
from bursar.client.errors import Denied, Invalid, Unreachable

LOCAL = Address(scheme="http", host="127.0.0.1", port=7171)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state folder of a local server."""
    for name in ("BURSAR_SERVER", "BURSAR_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BURSAR_STATE", str(tmp_path))
    (tmp_path / "server.json").write_text(json.dumps({"address": str(LOCAL), "pid": 1}))
    write_secret(tmp_path, "admin-token", "of-the-admin")
    return tmp_path


def write_secret(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"{text}\n")
    path.chmod(0o600)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("http://127.0.0.1:7171", "http://127.0.0.1:7171"),
        ("gpus.example.org:80", "http://gpus.example.org:80"),
        ("https://gpus.example.org", "https://gpus.example.org:443"),
        ("https://gpus.example.org/bursar/", "https://gpus.example.org:443/bursar"),
        ("http://[::1]:7171", "http://[::1]:7171"),
    ],
)
def test_an_address_is_parsed(text: str, address: str) -> None:
    assert str(read_address(text)) == address


@pytest.mark.parametrize(
    "text", ["ftp://x", "http://", "http://x:port", "http://me:secret@x", "http://x:99999"]
)
def test_a_bad_address_is_rejected(text: str) -> None:
    with pytest.raises(Invalid, match="is not the address of a server"):
        read_address(text)


def test_arguments_override_the_environment_and_that_the_state_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_address() == LOCAL
    assert find_token(None, LOCAL) == "of-the-admin"
    write_secret(folder, "token", "of-the-user")
    assert find_token(None, LOCAL) == "of-the-user"
    monkeypatch.setenv("BURSAR_SERVER", "http://there:1")
    monkeypatch.setenv("BURSAR_TOKEN", "of-the-environment")
    assert str(find_address()) == "http://there:1"
    assert find_token(None, LOCAL) == "of-the-environment"
    assert str(find_address("http://argument:1")) == "http://argument:1"
    assert find_token("of-the-argument", LOCAL) == "of-the-argument"


def test_the_stored_token_is_used_for_the_local_server_only(folder: Path) -> None:
    with pytest.raises(Denied, match="there is no token for http://elsewhere:1"):
        find_token(None, read_address("http://elsewhere:1"))


def test_a_token_that_others_can_read_is_not_used(folder: Path) -> None:
    (folder / "admin-token").chmod(0o644)
    with pytest.raises(Denied, match="may be read by others") as denied:
        find_token(None, LOCAL)
    assert "chmod 600" in denied.value.fix


@pytest.mark.parametrize("token", ["two words", "line\nbreak", "ünicode", "nul\0"])
def test_a_token_with_other_characters_is_rejected(folder: Path, token: str) -> None:
    with pytest.raises(Denied, match="no token has"):
        find_token(token, LOCAL)


def test_an_unknown_server_is_reported(folder: Path) -> None:
    (folder / "server.json").write_text("{")
    with pytest.raises(Unreachable, match="cannot be read"):
        find_address()
    (folder / "server.json").unlink()
    with pytest.raises(Unreachable, match="no server is known") as refused:
        find_address()
    assert "bursar up" in refused.value.fix
