"""One method for each route about money, as ``Client().cost``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast
from urllib.parse import urlencode

from bursar.api import wire

if TYPE_CHECKING:
    from bursar.client.client import Client

Filter = str | int | Sequence[str] | None


class Costs:
    """Days are ``YYYY-MM-DD`` in UTC; ``to_day`` is not included."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def report(self, by: str = "team", **filters: Filter) -> wire.CostReportView:
        """The cost of some days; takes ``from_day``, ``to_day`` and ``limit``."""
        return cast(wire.CostReportView, self._get("report", {"by": by, **filters}))

    def diff(self, by: str = "team", **filters: Filter) -> wire.CostDiff:
        """Compares two periods: ``from_day``, ``to_day``, ``before_from``, ``before_to``, ``limit``."""
        return cast(wire.CostDiff, self._get("diff", {"by": by, **filters}))

    def budgets(self) -> list[wire.BudgetRow]:
        """Amounts spent, held and left of each budget."""
        return cast(wire.BudgetPage, self._client._get("/v1/budgets"))["items"]

    def forecast(self, tenant: str | None = None) -> list[wire.CostForecast]:
        """When each budget will be used up."""
        reply = self._get("forecast", {"tenant": tenant})
        return cast(wire.CostForecasts, reply)["items"]

    def statement(self, **filters: Filter) -> wire.CostStatements:
        """Statements; takes ``tenant``, ``from_day``, ``to_day``, ``kind``, ``idle`` and ``lines``."""
        return cast(wire.CostStatements, self._get("statement", filters))

    def savings(self, **filters: Filter) -> wire.CostSavings:
        """Savings; takes ``baseline``, ``from_day``, ``to_day`` and ``price`` (a list of pool=dollars)."""
        return cast(wire.CostSavings, self._get("savings", filters))

    def export(self, form: str = "csv", **filters: Filter) -> bytes:
        """A file: csv, json, parquet, focus or focus-parquet; takes ``from_day`` and ``to_day``."""
        path = f"/v1/cost/export{query_of({'format': form, **filters})}"
        return self._client._request("GET", path).body

    def bill(self, bill: wire.BillRequest) -> wire.BillTaken:
        """Adjusts the ledger of past days to a provider's bill for a pool."""
        reply = self._client._post("/v1/cost/bills", dict(bill), repeatable=False)
        return cast(wire.BillTaken, reply)

    def _get(self, what: str, filters: Mapping[str, Filter]) -> object:
        return self._client._get(f"/v1/cost/{what}{query_of(filters)}")


def query_of(filters: Mapping[str, Filter]) -> str:
    """The filters that are set, as the query of a path."""
    names = {"from_day": "from", "to_day": "to"}
    values = {
        names.get(name, name): value
        for name, value in filters.items()
        if value not in ("", None, [])
    }
    return f"?{urlencode(values, doseq=True)}" if values else ""
