"""docs/api.md lists exactly the routes and error codes that exist."""

from __future__ import annotations

import ast
import re

from bursar.api.http.errors import CODES
from bursar.api.http.route import Open
from bursar.api.routes import ROUTES
from bursar.model.tenants.identity import Permission
from tests.tidy.source import ROOT

PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
ROUTE_ROW = re.compile(r"^\| `([A-Z]+ /\S+)` \| (.+?) \|", re.MULTILINE)
CODE_ROW = re.compile(r"^\| `([a-z0-9-]+)` \| ([0-9]{3}) \|", re.MULTILINE)
OTHER_CODE = re.compile(r"^\| `([a-z-]+)` \| [a-z]", re.MULTILINE)


def test_every_route_is_on_the_page_with_its_permission() -> None:
    permissions: dict[object, str] = {Open.TO_ALL: "nothing", Open.TO_ANY_TOKEN: "any token"}
    permissions |= {one: f"`{one.value}`" for one in Permission}
    assert ROUTE_ROW.findall(PAGE) == [(route.name, permissions[route.needs]) for route in ROUTES]


def test_every_code_is_on_the_page_with_its_status() -> None:
    assert CODE_ROW.findall(PAGE) == [(code, str(kind.status)) for code, kind in CODES.items()]


def test_every_code_that_the_api_raises_is_on_the_page() -> None:
    folders = [ROOT / "src" / "bursar" / "api", ROOT / "src" / "bursar" / "control"]
    raised = {
        keyword.value.value
        for folder in folders
        for file in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "code"
        and isinstance(keyword.value, ast.Constant)
        and isinstance(keyword.value.value, str)
    }
    admission = (ROOT / "src/bursar/core/admission/README.md").read_text(encoding="utf-8")
    known = set(CODES) | set(OTHER_CODE.findall(PAGE)) | set(re.findall(r"`([a-z-]+)`", admission))
    at_startup = {"remote-bind", "address-taken"}
    assert raised - known == at_startup
