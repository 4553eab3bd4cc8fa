"""Converts column values to JSON text and back."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bursar.codec import from_text, to_text
from bursar.model.event import JobSubmitted
from bursar.model.jobs.job import JobSpec
from bursar.model.jobs.run_spec import RunSpec
from bursar.ports import JobOrigin


def storable(text: str) -> str:
    """Replaces the characters that a text column cannot hold.

    PostgreSQL rejects NUL, and both databases reject a lone surrogate. Such a character in one job
    must not fail the whole batch. The JSON retains the original text, escaped.
    """
    if text.isascii() and "\0" not in text:
        return text
    valid = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return valid.replace("\0", "\N{REPLACEMENT CHARACTER}")


def spec_of(submission_body: str) -> JobSpec:
    """Job spec of a stored ``JobSubmitted`` event."""
    return from_text(JobSubmitted, submission_body).spec


def node_mark(node: str) -> str:
    """Text that a placement's JSON contains if and only if it uses this node."""
    return f'"node":{to_text(node)}'


@dataclass(frozen=True, slots=True, kw_only=True)
class _OriginBody:
    """An origin without its owner, labels and secrets, which have columns of their own."""

    recipe: RunSpec
    document: str


def origin_text(origin: JobOrigin) -> str:
    recipe = origin.recipe
    if recipe.secrets:
        recipe = replace(recipe, secrets={})
    return to_text(_OriginBody(recipe=recipe, document=origin.document))


def origin_of(owner: str, labels: str, body: str, secrets: str | None) -> JobOrigin:
    stored = from_text(_OriginBody, body)
    recipe = stored.recipe
    if secrets is not None:
        recipe = replace(recipe, secrets=from_text(dict[str, str], secrets))
    return JobOrigin(
        owner=owner,
        recipe=recipe,
        labels=from_text(dict[str, str], labels),
        document=stored.document,
    )
