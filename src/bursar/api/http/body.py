"""Reading bodies: never more than was allowed, never longer than was given, never deeper than is sane."""

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

DEEPEST: Final = 64
BODY_SECONDS: Final = 30.0
HEARD_OUT_SECONDS: Final = 2.0
HEARD_OUT_BYTES: Final = 64 * 2**20
_ODD_ESCAPE = re.compile(rb"\\u(?:[dD][89a-fA-F]|0000)")
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)


class Disconnected(Exception):
    """The client went away while it was being read."""


def media_type_of(headers: Mapping[str, str], allowed: Mapping[str, Any]) -> str:
    """What the body is; one of the types that the route takes."""
    given = headers.get("content-type", "")
    media = given.partition(";")[0].strip().lower()
    encoding = headers.get("content-encoding", "identity").lower()
    if media not in allowed or encoding != "identity":
        known = ", ".join(allowed)
        raise HttpRefusal(
            f"the body is {media[:60]!r}"
            + (f" encoded as {encoding[:20]!r}." if encoding != "identity" else "."),
            fix=f"Send {known}, not compressed.",
            code="wrong-media-type",
        )
    return media


async def pieces_of(
    receive: Receive, headers: Mapping[str, str], most_bytes: int
) -> AsyncIterator[bytes]:
    """The body as it arrives; each piece must come in time, and all of them must be few enough."""
    declared = headers.get("content-length", "")
    if declared.isdigit() and int(declared) > most_bytes:
        await _hear_out(receive)
        raise _too_large(most_bytes)
    size = 0
    while True:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                message = await receive()
        except TimeoutError as error:
            raise HttpRefusal(
                f"nothing of the body came for {BODY_SECONDS:g} s.",
                fix="Send it again over a better connection.",
                code="too-slow",
                headers={"Connection": "close"},
            ) from error
        if message["type"] == "http.disconnect":
            raise Disconnected
        piece: bytes = message.get("body", b"")
        size += len(piece)
        if size > most_bytes:
            await _hear_out(receive)
            raise _too_large(most_bytes)
        if piece:
            yield piece
        if not message.get("more_body", False):
            return


async def _hear_out(receive: Receive) -> None:
    """Let a client that sends too much finish, within reason: one that is cut off hears no answer."""
    size = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(HEARD_OUT_SECONDS):
            more = True
            while more and size <= HEARD_OUT_BYTES:
                message = await receive()
                size += len(message.get("body", b""))
                more = message.get("more_body", False)


def _too_large(most_bytes: int) -> HttpRefusal:
    return HttpRefusal(
        f"the body is larger than {most_bytes:,} bytes.",
        fix="Send less at once.",
        code="body-too-large",
        headers={"Connection": "close"},
    )


async def read_body(receive: Receive, headers: Mapping[str, str], most_bytes: int) -> bytes:
    """The whole body."""
    pieces = [piece async for piece in pieces_of(receive, headers, most_bytes)]
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def text_of(body: bytes) -> str:
    """The body as text."""
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise HttpRefusal(
            f"the body is not UTF-8: byte {error.start:,} cannot be read.",
            fix="Save it as UTF-8 and send it again.",
            code="not-utf8",
        ) from error


def parse_json(body: bytes) -> Any:
    """The body as plain values. A key that stands twice, NaN and endless numbers are refused."""
    refuse_depth(body)
    try:
        value = _DECODER.decode(text_of(body))
        if _ODD_ESCAPE.search(body):
            _refuse_odd_texts(value)
    except (ValueError, RecursionError) as error:
        raise _not_json(error) from error
    return value


def _refuse_odd_texts(value: Any) -> None:
    """Half a character and the zero character can be written in JSON, and stored nowhere."""
    if isinstance(value, dict):
        for key, one in value.items():
            _refuse_odd_texts(key)
            _refuse_odd_texts(one)
    elif isinstance(value, list):
        for one in value:
            _refuse_odd_texts(one)
    elif isinstance(value, str):
        if "\0" in value:
            raise _NotPlain("a text has a zero character in it")
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise _NotPlain("a text has half a character (a lone surrogate) in it") from error


def refuse_depth(body: bytes) -> None:
    """Refuse nesting that only an attack has, before anything recursive looks at it."""
    if body.count(b"[") + body.count(b"{") <= DEEPEST:
        return
    depth = 0
    for found in _TOKENS.finditer(body):
        mark = found[0]
        if mark in (b"[", b"{"):
            depth += 1
            if depth > DEEPEST:
                raise HttpRefusal(
                    f"the body is nested more than {DEEPEST} deep.",
                    fix="Flatten it.",
                    code="too-deep",
                )
        elif mark in (b"]", b"}"):
            depth -= 1


def _not_json(error: ValueError | RecursionError) -> HttpRefusal:
    where = "it cannot be read"
    if isinstance(error, json.JSONDecodeError):
        where = f"{error.msg} at line {error.lineno}, column {error.colno}"
    elif isinstance(error, _NotPlain):
        where = str(error)
    return HttpRefusal(
        f"the body is not JSON: {where}.",
        fix="Check quotes, commas and brackets just before that place.",
        code="not-json",
    )


class _NotPlain(ValueError):
    pass


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _NotPlain(f"the key {key[:60]!r} stands twice")
            seen.add(key)
    return found


def _no_constant(name: str) -> NoReturn:
    raise _NotPlain(f"{name} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _NotPlain(f"{text[:40]} is too large a number")
    return value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_each_key_once, parse_constant=_no_constant, parse_float=_finite
)
