"""Rows of the tables as JSON text and back."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bursar.codec import from_text, to_text
from bursar.model.event import JobSubmitted
from bursar.model.jobs.job import JobSpec
from bursar.model.jobs.run_spec import RunSpec
from bursar.ports import JobOrigin


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


def spec_of(submission_body: str) -> JobSpec:
    """The spec alone, from the text of the job's submission."""
    return from_text(JobSubmitted, submission_body).spec


def node_mark(node: str) -> str:
    """What stands in a placement's text if, and only if, one of its tasks is on this node."""
    return f'"node":{to_text(node)}'


@dataclass(frozen=True, slots=True, kw_only=True)
class _OriginBody:
    """An origin without its owner, its labels and its secrets."""

    recipe: RunSpec
    document: str


def origin_text(origin: JobOrigin) -> str:
    """An origin without its labels and its secrets."""
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
