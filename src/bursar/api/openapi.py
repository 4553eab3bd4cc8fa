"""The OpenAPI 3.1 description, generated from the routes that requests are checked against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bursar import __version__
from bursar.api import wire
from bursar.api.http.errors import CODES
from bursar.api.http.route import Open, Parameter, Route
from bursar.api.wire.schemas import components, reference
from bursar.config.job.job_keys import job_schema

OPENAPI_PATH = "/v1/openapi.json"
PATH_SCHEMAS: dict[str, dict[str, Any]] = {
    "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
}
ALWAYS = (400, 421, 422, 500, 503)
WITH_TOKEN = (401, 403, 429)
WITH_PATH = (404,)
WITH_BODY = (408, 413, 415)


def openapi(routes: Sequence[Route]) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    kinds = {route.kind for route in routes} | {route.body.kind for route in routes if route.body}
    kinds = {wire.ProblemView, *kinds} - {None}
    schemas = components(tuple(sorted(kinds, key=lambda kind: str(kind.__name__))))
    job_document = {key: one for key, one in job_schema().items() if not key.startswith("$")}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Bursar",
            "version": __version__,
            "description": "A multi-tenant GPU scheduler with a dollar ledger.",
        },
        "paths": paths,
        "components": {
            "schemas": {**_bounded(schemas), "JobDocument": job_document},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _bounded(schemas: dict[str, Any]) -> dict[str, Any]:
    """Adds the limits that requests are checked against to the schemas."""
    token = schemas["TokenRequest"]["properties"]
    name = {"type": "string", "maxLength": 128, "pattern": r"^\S(?:[ -~]*\S)?$"}
    token["user"] = name
    token["tenant"] = {"type": "string", "maxLength": 128}
    token["expires_in_seconds"] = {
        "anyOf": [{"type": "integer", "minimum": 1, "maximum": 316_224_000}, {"type": "null"}]
    }
    files = schemas["FleetFiles"]["properties"]
    files["files"] = {**files["files"], "minProperties": 1, "maxProperties": 200}
    files["expected_sequence"] = {
        "anyOf": [{"type": "integer", "minimum": 0, "maximum": 2**63 - 1}, {"type": "null"}]
    }
    return schemas


def statuses(route: Route) -> tuple[int, ...]:
    """Every error status of a route."""
    codes = {*ALWAYS, *route.problems}
    if route.needs is not Open.TO_ALL:
        codes |= {*WITH_TOKEN}
    if route.path_parameters or route.writes:
        codes |= {*WITH_PATH}
    if route.body is not None:
        codes |= {*WITH_BODY}
    return tuple(sorted(codes))


def _operation(route: Route) -> dict[str, Any]:
    replies = {route.status: route.reply, **route.other_replies}
    described: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.about,
        "parameters": [
            *(_path_parameter(name) for name in route.path_parameters),
            *(_parameter(one, "query") for one in route.query),
            *(_parameter(one, "header") for one in route.headers),
        ],
        "responses": {
            **{str(status): _reply(route, about) for status, about in replies.items()},
            **{str(status): _problem(status) for status in statuses(route)},
        },
    }
    if route.needs is not Open.TO_ALL:
        described["security"] = [{"token": []}]
        needs = route.needs
        described["x-bursar-permission"] = needs.value if needs is not None else ""
    if route.body is not None:
        described["requestBody"] = {
            "required": True,
            "content": {media: {"schema": one} for media, one in route.body.media.items()},
        }
    return described


def _operation_id(route: Route) -> str:
    words = route.path.replace("{", "").replace("}", "").replace(":", "/").strip("/").split("/")
    return "_".join([route.method.lower(), *(word.replace(".", "_") for word in words)])


def _path_parameter(name: str) -> dict[str, Any]:
    schema = PATH_SCHEMAS.get(name, {"type": "string", "minLength": 1})
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _parameter(one: Parameter, location: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "maxLength": one.max_length}
    if one.is_number:
        schema = {"type": "integer", "minimum": one.minimum, "maximum": one.maximum}
    elif one.choices:
        schema = {"type": "string", "enum": list(one.choices)}
    elif one.pattern:
        schema = {**schema, "minLength": 1, "pattern": f"^{one.pattern}$"}
    if one.is_repeated:
        schema = {"type": "array", "items": schema}
    return {"name": one.name, "in": location, "description": one.about, "schema": schema}


def _reply(route: Route, about: str) -> dict[str, Any]:
    schema = reference(route.kind) if route.kind is not None else {}
    text: dict[str, Any] = {"type": "string"}
    return {
        "description": about,
        "content": {
            media: {"schema": schema if media == wire.JSON else text} for media in route.media
        },
    }


def _problem(status: int) -> dict[str, Any]:
    codes = sorted(code for code, kind in CODES.items() if kind.status == status)
    return {
        "description": f"Codes: {', '.join(codes)}.",
        "content": {wire.PROBLEM: {"schema": reference(wire.ProblemView)}},
    }
