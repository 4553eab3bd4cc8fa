"""Encodes model values as JSON and decodes them, by their declared types.

msgspec encodes and decodes dataclasses. Three cases need help: the type of an event (its class name is the
first field, ``type``), the type of a GPU request (each has a field of its own), and quotas, whose keys are
pairs (a pair is written as a JSON list).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias, TypeVar, cast, get_args

import msgspec

from bursar.model.event import LoggedEvent
from bursar.model.jobs.job import GpuRequest, MigSlice, MpsShare, WholeGpus
from bursar.model.suggestion import did_you_mean

Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"
Value = TypeVar("Value")
Decode = Callable[[str], Any]


class UnreadableValue(Exception):
    """A text or plain value cannot be decoded; the message has the path and the cause."""


class MalformedText(UnreadableValue):
    """A text is not valid JSON."""


# -- any value ---------------------------------------------------------------------------------------


def to_text(value: object) -> str:
    """Encodes a value as JSON text."""
    try:
        return _ENCODER.encode(value).decode()
    except UnicodeEncodeError:  # a lone surrogate: only the standard library encodes it
        return json.dumps(to_plain(value), separators=(",", ":"), allow_nan=False)


def to_plain(value: object) -> Any:
    """Converts a value to mappings, lists, strings and numbers."""
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_encode_other)


def from_text(kind: type[Value], text: str) -> Value:
    """Decodes JSON text as a value of this type."""
    try:
        value: Value = _decoder(cast(Any, kind))(text)
    except (msgspec.DecodeError, UnicodeEncodeError):  # quotas, a lone surrogate, or an error
        value = _decode_via_plain(kind, text)
    return value


def from_plain(kind: type[Value], plain: object) -> Value:
    """Converts mappings, lists, strings and numbers to a value of this type."""
    try:
        return msgspec.convert(plain, kind, dec_hook=_decode_other)
    except msgspec.ValidationError as error:
        raise UnreadableValue(str(error)) from error


def _encode_other(value: object) -> object:
    if isinstance(value, tuple):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be encoded as JSON")


_ENCODER = msgspec.json.Encoder(enc_hook=_encode_other)


@cache
def _decoder(kind: Any) -> Decode:
    return msgspec.json.Decoder(kind, dec_hook=_decode_other).decode


def _decode_via_plain(kind: type[Value], text: str) -> Value:
    try:
        plain = json.loads(text, object_hook=_pair_quotas, parse_constant=_reject_constant)
    except RecursionError as error:
        raise MalformedText("it is nested too deeply") from error
    except ValueError as error:
        raise MalformedText(str(error)) from error
    return from_plain(kind, plain)


def _pair_quotas(mapping: dict[str, Any]) -> dict[str, Any]:
    quotas = mapping.get("quotas")
    if isinstance(quotas, dict):
        mapping["quotas"] = {tuple(json.loads(key)): quota for key, quota in quotas.items()}
    return mapping


def _reject_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not a valid JSON number")


def _decode_other(declared: type, plain: Any) -> Any:
    if declared is not GpuRequest or not isinstance(plain, dict):
        raise msgspec.ValidationError(f"Expected a {declared.__name__}")
    kind = MpsShare if "percent" in plain else MigSlice if "profile" in plain else WholeGpus
    return msgspec.convert(plain, kind)


# -- events ------------------------------------------------------------------------------------------


class _Typed(msgspec.Struct):
    type: str


_EVENTS: dict[str, Any] = {kind.__name__: kind for kind in get_args(LoggedEvent)}


def event_text(event: LoggedEvent) -> str:
    """Encodes an event for the log."""
    return f'{{"type":"{type(event).__name__}",{to_text(event)[1:]}'


def event_of(text: str) -> LoggedEvent:
    """Decodes an event of the log."""
    name = from_text(_Typed, text).type
    if name not in _EVENTS:
        hint = did_you_mean(name, _EVENTS)
        raise UnreadableValue(f"{name[:60]!r} is not an event type{hint and f' ({hint})'}")
    event: LoggedEvent = from_text(_EVENTS[name], text)
    return event
