"""Reads request bodies with limits on size, time and nesting depth."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, Final, NoReturn

from starlette.types import Receive

from bursar.api.http.errors import HttpRefusal

MAX_DEPTH: Final = 64
CHUNK_TIMEOUT_SECONDS: Final = 30.0
DRAIN_SECONDS: Final = 2.0
DRAIN_BYTES: Final = 64 * 2**20
_UNSTORABLE_ESCAPE = re.compile(rb"\\u(?:[dD][89a-fA-F]|0000)")
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)


class Disconnected(Exception):
    """The client closed the connection while its body was read."""


def media_type_of(headers: Mapping[str, str], allowed: Mapping[str, Any]) -> str:
    """The media type of the body, which must be one that the route takes."""
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    encoding = headers.get("content-encoding", "identity").lower()
    if media not in allowed or encoding != "identity":
        raise HttpRefusal(
            f"the body is {media[:60]!r}"
            + (f" encoded as {encoding[:20]!r}." if encoding != "identity" else "."),
            fix=f"Send {', '.join(allowed)}, not compressed.",
            code="wrong-media-type",
        )
    return media


async def body_chunks(
    receive: Receive, headers: Mapping[str, str], max_bytes: int
) -> AsyncIterator[bytes]:
    """The body as it arrives; each chunk must come in time, and the sum is limited."""
    declared = headers.get("content-length", "")
    if declared.isdigit() and int(declared) > max_bytes:
        await _drain(receive)
        raise _too_large(max_bytes)
    size = 0
    while True:
        try:
            async with asyncio.timeout(CHUNK_TIMEOUT_SECONDS):
                message = await receive()
        except TimeoutError as error:
            raise HttpRefusal(
                f"no data of the body came for {CHUNK_TIMEOUT_SECONDS:g} s.",
                fix="Send it again over a better connection.",
                code="too-slow",
                headers={"Connection": "close"},
            ) from error
        if message["type"] == "http.disconnect":
            raise Disconnected
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > max_bytes:
            await _drain(receive)
            raise _too_large(max_bytes)
        if chunk:
            yield chunk
        if not message.get("more_body", False):
            return


async def _drain(receive: Receive) -> None:
    """Reads the rest of a body that is too large, up to a limit: most clients read no response before."""
    size = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_SECONDS):
            more = True
            while more and size <= DRAIN_BYTES:
                message = await receive()
                size += len(message.get("body", b""))
                more = message.get("more_body", False)


def _too_large(max_bytes: int) -> HttpRefusal:
    return HttpRefusal(
        f"the body is larger than {max_bytes:,} bytes.",
        fix="Send less at once.",
        code="body-too-large",
        headers={"Connection": "close"},
    )


async def read_body(receive: Receive, headers: Mapping[str, str], max_bytes: int) -> bytes:
    chunks = [chunk async for chunk in body_chunks(receive, headers, max_bytes)]
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def decode_text(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise HttpRefusal(
            f"the body is not UTF-8: byte {error.start:,} cannot be read.",
            fix="Save it as UTF-8 and send it again.",
            code="not-utf8",
        ) from error


def parse_json(body: bytes) -> Any:
    """Parses a JSON body. Duplicate keys, NaN and infinite numbers are refused."""
    refuse_depth(body)
    try:
        value = _DECODER.decode(decode_text(body))
        if _UNSTORABLE_ESCAPE.search(body):
            _refuse_unstorable_text(value)
    except (ValueError, RecursionError) as error:
        raise _not_json(error) from error
    return value


def _refuse_unstorable_text(value: Any) -> None:
    """Refuses lone surrogates and NUL, which JSON can express and a database cannot store."""
    if isinstance(value, dict):
        for key, one in value.items():
            _refuse_unstorable_text(key)
            _refuse_unstorable_text(one)
    elif isinstance(value, list):
        for one in value:
            _refuse_unstorable_text(one)
    elif isinstance(value, str):
        if "\0" in value:
            raise _Unacceptable("a text contains a NUL character")
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise _Unacceptable("a text contains a lone surrogate") from error


def refuse_depth(body: bytes) -> None:
    """Refuses deep nesting before a recursive parser reads it."""
    if body.count(b"[") + body.count(b"{") <= MAX_DEPTH:
        return
    depth = 0
    for match in _TOKENS.finditer(body):
        token = match[0]
        if token in (b"[", b"{"):
            depth += 1
            if depth > MAX_DEPTH:
                raise HttpRefusal(
                    f"the body is nested more than {MAX_DEPTH} deep.",
                    fix="Flatten it.",
                    code="too-deep",
                )
        elif token in (b"]", b"}"):
            depth -= 1


def _not_json(error: ValueError | RecursionError) -> HttpRefusal:
    where = "it cannot be read"
    if isinstance(error, json.JSONDecodeError):
        where = f"{error.msg} at line {error.lineno}, column {error.colno}"
    elif isinstance(error, _Unacceptable):
        where = str(error)
    return HttpRefusal(
        f"the body is not JSON: {where}.",
        fix="Check quotes, commas and brackets just before that place.",
        code="not-json",
    )


class _Unacceptable(ValueError):
    """Valid JSON that is refused."""


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Unacceptable(f"the key {key[:60]!r} is there twice")
            seen.add(key)
    return values


def _refuse_constant(name: str) -> NoReturn:
    raise _Unacceptable(f"{name} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _Unacceptable(f"{text[:40]} is too large")
    return value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique_keys, parse_constant=_refuse_constant, parse_float=_finite
)
