"""Values of the model as JSON text and back, driven by their declared types.

msgspec writes and reads dataclasses as they are. Three things it cannot know are settled here: which event
a text is (its class stands first, under ``type``), which of the GPU requests a mapping is (each has a field
of its own), and quotas, whose keys are pairs (a pair is written as a JSON list).
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
Read = Callable[[str], Any]


class UnreadableValue(Exception):
    """A text or plain value does not describe what it should; says where in it and why."""


class MalformedText(UnreadableValue):
    """A text is not JSON."""


# -- any value ---------------------------------------------------------------------------------------


def to_text(value: object) -> str:
    """The JSON text of a value."""
    try:
        return _ENCODER.encode(value).decode()
    except UnicodeEncodeError:  # half a surrogate pair: only the standard library writes it
        return json.dumps(to_plain(value), separators=(",", ":"), allow_nan=False)


def to_plain(value: object) -> Any:
    """The value as JSON knows it: mappings, lists, texts and numbers."""
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_write_other)


def from_text(kind: type[Value], text: str) -> Value:
    """The value of this type that a text describes."""
    try:
        value: Value = _reader(cast(Any, kind))(text)
    except (msgspec.DecodeError, UnicodeEncodeError):  # quotas, half a surrogate pair, or a mistake
        value = _read_by_steps(kind, text)
    return value


def from_plain(kind: type[Value], plain: object) -> Value:
    """The value of this type that mappings, lists, texts and numbers describe."""
    try:
        return msgspec.convert(plain, kind, dec_hook=_read_other)
    except msgspec.ValidationError as error:
        raise UnreadableValue(str(error)) from error


def _write_other(value: object) -> object:
    if isinstance(value, tuple):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


_ENCODER = msgspec.json.Encoder(enc_hook=_write_other)


@cache
def _reader(kind: Any) -> Read:
    return msgspec.json.Decoder(kind, dec_hook=_read_other).decode


def _read_by_steps(kind: type[Value], text: str) -> Value:
    try:
        plain = json.loads(text, object_hook=_pair_quotas, parse_constant=_refuse)
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


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number of JSON")


def _read_other(declared: type, plain: Any) -> Any:
    if declared is not GpuRequest or not isinstance(plain, dict):
        raise msgspec.ValidationError(f"Expected a {declared.__name__}")
    own = "percent" in plain, "profile" in plain
    kind = MpsShare if own[0] else MigSlice if own[1] else WholeGpus
    return msgspec.convert(plain, kind)


# -- events ------------------------------------------------------------------------------------------


class _Typed(msgspec.Struct):
    type: str


_EVENTS: dict[str, Any] = {kind.__name__: kind for kind in get_args(LoggedEvent)}


def event_text(event: LoggedEvent) -> str:
    """An event as a log stores it."""
    return f'{{"type":"{type(event).__name__}",{to_text(event)[1:]}'


def event_of(text: str) -> LoggedEvent:
    """The event that a log stores so."""
    name = from_text(_Typed, text).type
    if name not in _EVENTS:
        hint = did_you_mean(name, _EVENTS)
        raise UnreadableValue(f"{name[:60]!r} is no type of event{hint and f' ({hint})'}")
    event: LoggedEvent = from_text(_EVENTS[name], text)
    return event
