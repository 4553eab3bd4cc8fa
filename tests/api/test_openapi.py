"""The server behaves as its OpenAPI description states, for valid and invalid requests."""

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
from tests.api.harness import ApiHarness

STREAMS = {"/v1/events"}
CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
EXAMPLES = settings.default.max_examples // 3
"""Examples for each route; the default number would take minutes."""


@pytest.fixture(scope="module")
def description(api: ApiHarness) -> dict[str, Any]:
    response = api.client().get("/v1/openapi.json")
    assert response.status == 200
    document: dict[str, Any] = response.json
    return document


def test_every_route_is_described(description: dict[str, Any]) -> None:
    described = {
        f"{method.upper()} {path}" for path, one in description["paths"].items() for method in one
    }
    assert described == {route.name for route in ROUTES} | {"GET /v1/openapi.json"}


def test_the_permission_of_a_route_is_described(description: dict[str, Any]) -> None:
    for route in ROUTES:
        one = description["paths"][route.path][route.method.lower()]
        assert ("security" in one) is (route.needs is not Open.TO_ALL)
        if isinstance(route.needs, Permission):
            assert one["x-bursar-permission"] == route.needs.value


def test_every_error_status_is_described_by_some_route() -> None:
    described = {status for route in ROUTES for status in statuses(route)}
    assert {kind.status for kind in CODES.values()} - {405} <= described


def test_operation_ids_are_unique(description: dict[str, Any]) -> None:
    names = [one["operationId"] for path in description["paths"].values() for one in path.values()]
    assert len(names) == len(set(names))


@pytest.fixture(scope="module")
def schema(api: ApiHarness, description: dict[str, Any]) -> Any:
    loaded = schemathesis.openapi.from_dict(description)
    loaded.config.update(base_url=f"http://127.0.0.1:{api.server.port}")
    return loaded


@schemathesis.serializer("application/gzip")
def _serialise_archive(_context: object, value: object) -> bytes:
    """Sends bytes unchanged and any other value as text."""
    return value if isinstance(value, bytes) else str(value).encode()


TESTED = sorted(
    (route for route in ROUTES if route.path not in STREAMS), key=lambda route: route.name
)
WITH_INPUT = [route for route in TESTED if route.query or route.path_parameters or route.body]


@pytest.mark.parametrize("route", TESTED, ids=lambda route: route.name)
def test_valid_requests_get_described_responses(api: ApiHarness, schema: Any, route: Route) -> None:
    check_examples(api, schema, route, schemathesis.GenerationMode.POSITIVE)


@pytest.mark.parametrize("route", WITH_INPUT, ids=lambda route: route.name)
def test_invalid_requests_are_rejected_as_described(
    api: ApiHarness, schema: Any, route: Route
) -> None:
    check_examples(api, schema, route, schemathesis.GenerationMode.NEGATIVE)


def check_examples(
    api: ApiHarness, schema: Any, route: Route, mode: schemathesis.GenerationMode
) -> None:
    @given(case=schema[route.path][route.method].as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    def check(case: Any) -> None:
        if (case.query or {}).get("follow") == "true":
            return
        response = case.call(headers={"Authorization": f"Bearer {api.tokens['admin']}"})
        case.validate_response(response, checks=CHECKS)

    check()
