"""Values as JSON texts and back. What the texts look like is ``model.plain_values``' business.

A submission is most of what is written, and most of it is alike from job to job: everything but the
name. That part of the text is remembered, which halves the cost of a bulk submission.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any

from bursar.model.attempt import Placement
from bursar.model.event import JobSubmitted, LoggedEvent
from bursar.model.identity import Token
from bursar.model.job import JobSpec
from bursar.model.plain_values import TAG, from_plain, to_plain
from bursar.model.recipe import Recipe
from bursar.ports import JobOrigin

_SUBMITTED = f'{{"{TAG}":"JobSubmitted","at_ms":'
_SPEC, _PRIORITY, _HOLD = ',"spec":{"name":', ',"priority":', ',"hold_micro_usd":'

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_decode = json.JSONDecoder()
_event_to_plain, _event_from_plain = to_plain(LoggedEvent), from_plain(LoggedEvent)
_spec_to_plain, _spec_from_plain = to_plain(JobSpec), from_plain(JobSpec)
_placement_to_plain, _placement_from_plain = to_plain(Placement), from_plain(Placement)
_recipe_to_plain, _recipe_from_plain = to_plain(Recipe), from_plain(Recipe)
_token_to_plain, _token_from_plain = to_plain(Token), from_plain(Token)


def storable(words: str) -> str:
    """A text as a column of either database can hold it.

    PostgreSQL takes no NUL and neither database takes half a surrogate pair; one such character in
    one job must not make a batch of other people's jobs fail, so it is replaced. What was really
    written stands in the JSON, where it is escaped.
    """
    if words.isascii() and "\0" not in words:
        return words
    kept = words.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return kept.replace("\0", "\N{REPLACEMENT CHARACTER}")


# -- events ------------------------------------------------------------------------------------------


def event_text(event: LoggedEvent) -> str:
    """An event as it is kept."""
    if type(event) is JobSubmitted:
        return _submission_text(event)
    return _encode(_event_to_plain(event))


def event_of(body: str) -> LoggedEvent:
    """The event that was written so."""
    if body.startswith(_SUBMITTED):
        return _submission_of(body)
    event: LoggedEvent = _event_from_plain(json.loads(body))
    return event


def spec_of(submission_body: str) -> JobSpec:
    """The spec alone, from the text of the job's submission."""
    return _submission_of(submission_body).spec


_REST_NAMES = [field.name for field in fields(JobSpec) if field.name != "name"]
_rest_key = attrgetter(*_REST_NAMES)


def _submission_text(event: JobSubmitted) -> str:
    """The same text as any event gets, put together from its parts."""
    rest = _rest_text(_rest_key(event.spec))
    return (
        f'{_SUBMITTED}{event.at_ms},"job_id":{_encode(event.job_id)}{_SPEC}'
        f"{_encode(event.spec.name)},{rest}{_PRIORITY}{event.priority}{_HOLD}{event.hold_micro_usd}}}"
    )


@lru_cache(maxsize=4_096)
def _rest_text(rest: tuple[Any, ...]) -> str:
    spec = JobSpec(name="", **dict(zip(_REST_NAMES, rest, strict=True)))
    return _encode(_spec_to_plain(spec)).removeprefix('{"name":"",')


def _submission_of(body: str) -> JobSubmitted:
    """Takes the text apart where ``_submission_text`` joined it. A quote inside a text is escaped,
    so that the joints are found nowhere else."""
    before_spec = body.index(_SPEC)
    name, after_name = _decode.raw_decode(body, before_spec + len(_SPEC))
    after_spec = body.rindex(_PRIORITY)
    head = json.loads(f"{body[:before_spec]}}}")
    spec = _unnamed_spec(body[after_name + 1 : after_spec])
    priority, _, hold = body[after_spec + len(_PRIORITY) : -1].partition(_HOLD)
    return JobSubmitted(
        at_ms=head["at_ms"],
        job_id=head["job_id"],
        spec=replace(spec, name=name),
        priority=int(priority),
        hold_micro_usd=int(hold or 0),
    )


@lru_cache(maxsize=4_096)
def _unnamed_spec(rest: str) -> JobSpec:
    spec: JobSpec = _spec_from_plain(json.loads('{"name":"",' + rest))
    return spec


# -- placements --------------------------------------------------------------------------------------


def placement_text(placement: Placement) -> str:
    return _encode(_placement_to_plain(placement))


def placement_of(text: str) -> Placement:
    placement: Placement = _placement_from_plain(json.loads(text))
    return placement


def node_mark(node: str) -> str:
    """What stands in a placement's text if, and only if, one of its tasks is on this node."""
    return f'"node":{_encode(node)}'


# -- origins -----------------------------------------------------------------------------------------


def origin_text(origin: JobOrigin) -> str:
    """An origin without its labels and its secrets."""
    recipe = origin.recipe
    if recipe.secrets:
        recipe = replace(recipe, secrets={})
    return _encode({"recipe": _recipe_to_plain(recipe), "document": origin.document})


def origin_of(owner: str, labels: str, body: str, secrets: str | None) -> JobOrigin:
    kept = json.loads(body)
    recipe: Recipe = _recipe_from_plain(kept["recipe"])
    if secrets is not None:
        recipe = replace(recipe, secrets=words_of(secrets))
    return JobOrigin(owner=owner, recipe=recipe, labels=words_of(labels), document=kept["document"])


def words_text(words: Mapping[str, str]) -> str:
    """Labels or secrets."""
    return _encode(dict(words))


def words_of(text: str) -> dict[str, str]:
    words: dict[str, str] = json.loads(text)
    return words


# -- tokens ------------------------------------------------------------------------------------------


def token_text(token: Token) -> str:
    return _encode(_token_to_plain(token))


def token_of(body: str) -> Token:
    token: Token = _token_from_plain(json.loads(body))
    return token
