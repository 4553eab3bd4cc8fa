"""OpenAPI says what the server does: asked with whatever fits it, and with whatever does not."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from bursar.api.http.errors import CODES
from bursar.api.http.route import Open, Route
from bursar.api.openapi import statuses
from bursar.api.routes import ROUTES
from bursar.model.tenants.identity import Permission
from tests.api.scene import Scene

STREAMS = {"/v1/events"}
CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
EXAMPLES = settings.default.max_examples // 3
"""For each route: as many as other property tests try would take minutes."""


@pytest.fixture(scope="module")
def description(scene: Scene) -> dict[str, Any]:
    told = scene.asker().get("/v1/openapi.json")
    assert told.status == 200
    found: dict[str, Any] = told.json
    return found


def test_every_route_is_described(description: dict[str, Any]) -> None:
    described = {
        f"{method.upper()} {path}" for path, one in description["paths"].items() for method in one
    }
    assert described == {route.name for route in ROUTES} | {"GET /v1/openapi.json"}


def test_what_a_route_needs_is_described(description: dict[str, Any]) -> None:
    for route in ROUTES:
        one = description["paths"][route.path][route.method.lower()]
        assert ("security" in one) is (route.needs is not Open.TO_ALL)
        if isinstance(route.needs, Permission):
            assert one["x-bursar-permission"] == route.needs.value


def test_every_status_of_a_code_can_be_answered_by_some_route() -> None:
    described = {status for route in ROUTES for status in statuses(route)}
    assert {kind.status for kind in CODES.values()} - {405} <= described


def test_each_operation_has_a_name_of_its_own(description: dict[str, Any]) -> None:
    names = [one["operationId"] for path in description["paths"].values() for one in path.values()]
    assert len(names) == len(set(names))


@pytest.fixture(scope="module")
def schema(scene: Scene, description: dict[str, Any]) -> Any:
    loaded = schemathesis.openapi.from_dict(description)
    loaded.config.update(base_url=f"http://127.0.0.1:{scene.served.port}")
    return loaded


@schemathesis.serializer("application/gzip")
def _as_it_is(_context: object, value: object) -> bytes:
    """Archives are bytes; whatever else is made up for one is sent as its text."""
    return value if isinstance(value, bytes) else str(value).encode()


ASKED = sorted(
    (route for route in ROUTES if route.path not in STREAMS), key=lambda route: route.name
)
CAN_BE_WRONG = [route for route in ASKED if route.query or route.path_parameters or route.body]


@pytest.mark.parametrize("route", ASKED, ids=lambda route: route.name)
def test_what_fits_the_description_is_answered_as_described(
    scene: Scene, schema: Any, route: Route
) -> None:
    ask_with(scene, schema, route, schemathesis.GenerationMode.POSITIVE)


@pytest.mark.parametrize("route", CAN_BE_WRONG, ids=lambda route: route.name)
def test_what_does_not_fit_it_is_refused_as_described(
    scene: Scene, schema: Any, route: Route
) -> None:
    ask_with(scene, schema, route, schemathesis.GenerationMode.NEGATIVE)


def ask_with(scene: Scene, schema: Any, route: Route, mode: schemathesis.GenerationMode) -> None:
    @given(case=schema[route.path][route.method].as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: Any) -> None:
        if (case.query or {}).get("follow") == "true":
            return
        response = case.call(headers={"Authorization": f"Bearer {scene.tokens['admin']}"})
        case.validate_response(response, checks=CHECKS)

    ask()
