"""Finds the server address and the token: from arguments, the environment or the state folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from bursar.client.errors import Denied, Invalid, Refused, Unreachable

SERVER_FILE: Final = "server.json"
TOKEN_FILES: Final = ("token", "admin-token")
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The address of a server. ``prefix`` is its base path, without a trailing slash."""

    scheme: str
    host: str
    port: int
    prefix: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"

    @property
    def is_local(self) -> bool:
        return self.host in LOOPBACK


def state_folder(environment: Mapping[str, str] | None = None) -> Path:
    """The folder in which ``bursar up`` stores its files."""
    environment = os.environ if environment is None else environment
    named = environment.get("BURSAR_STATE")
    return Path(named) if named else Path.home() / ".local" / "share" / "bursar"


def read_address(text: str) -> Address:
    """Parses ``http://host:port/prefix``; the default scheme is http."""
    whole = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(whole)
        port = parts.port
    except ValueError as error:
        raise _bad_address(text, str(error)) from error
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise _bad_address(text, "it is not http://HOST:PORT or https://HOST")
    if parts.username or parts.password:
        raise _bad_address(text, "it contains a user or a password")
    return Address(
        scheme=parts.scheme,
        host=parts.hostname,
        port=port or DEFAULT_PORTS[parts.scheme],
        prefix=parts.path.rstrip("/"),
    )


def find_address(server: str | None = None, folder: Path | None = None) -> Address:
    """The argument, else ``BURSAR_SERVER``, else ``server.json`` of the state folder."""
    text = server or os.environ.get("BURSAR_SERVER")
    if text:
        return read_address(text)
    folder = folder or state_folder()
    return read_address(_recorded_address(folder))


def find_token(token: str | None, address: Address, folder: Path | None = None) -> str:
    """The argument, else ``BURSAR_TOKEN``, else a token file of the state folder.

    The tokens of the folder belong to the server of the folder and are never sent to another address.
    """
    text = token or os.environ.get("BURSAR_TOKEN")
    if text:
        return _clean_token(text.strip())
    folder = folder or state_folder()
    if not _is_own(address, folder):
        raise _denied(
            f"there is no token for {address}: neither --token nor BURSAR_TOKEN is given.",
            fix="Set BURSAR_TOKEN to your token; a lead makes one with 'bursar token create'.",
        )
    for name in TOKEN_FILES:
        text = _read_secret(folder / name)
        if text:
            return _clean_token(text)
    raise _denied(
        f"there is no token: neither --token nor BURSAR_TOKEN is given, and {folder} holds none.",
        fix="Ask a lead for one ('bursar token create') and set BURSAR_TOKEN to it.",
    )


def _is_own(address: Address, folder: Path) -> bool:
    try:
        return read_address(_recorded_address(folder)) == address
    except Refused:
        return False


def _clean_token(token: str) -> str:
    if not token.isascii() or not token.isprintable() or " " in token:
        raise _denied(
            "the token contains characters that no token has.",
            fix="Copy it again: it is one word of letters, digits, '-' and '_'.",
            code="bad-token",
        )
    return token


def _recorded_address(folder: Path) -> str:
    import json

    path = folder / SERVER_FILE
    try:
        recorded = json.loads(path.read_text(encoding="utf-8"))
        return str(recorded["address"])
    except FileNotFoundError:
        raise Unreachable(
            f"no server is known: neither --server nor BURSAR_SERVER is given, and {path} is not there.",
            fix="Start one here with 'bursar up', or set BURSAR_SERVER to its address.",
            code="no-server",
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Unreachable(
            f"{path} cannot be read: {error}.",
            fix="Start 'bursar up' again, which writes it again, or set BURSAR_SERVER.",
            code="no-server",
        ) from error


def _read_secret(path: Path) -> str:
    """Reads a token file; refuses one that other users can read."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            raise _denied(
                f"{path} may be read by others (mode {mode:03o}), so the token in it is not safe.",
                fix=f"'chmod 600 {path}', and revoke the token if others use this machine.",
                code="token-readable-by-others",
            )
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise _denied(
            f"{path} cannot be read: {error}.",
            fix="Set BURSAR_TOKEN to your own token.",
        ) from error


def _denied(problem: str, *, fix: str, code: str = "no-token") -> Denied:
    return Denied(problem, fix=fix, code=code, status=401)


def _bad_address(text: str, why: str) -> Invalid:
    return Invalid(
        f"{text!r} is not the address of a server: {why}.",
        fix="Write for example http://127.0.0.1:7171.",
        code="bad-address",
    )
