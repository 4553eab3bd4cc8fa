"""What things cost: one method for each route about money. Had as ``Client().cost``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast
from urllib.parse import urlencode

from bursar.api import wire

if TYPE_CHECKING:
    from bursar.client.client import Client

Asked = str | int | Sequence[str] | None


class Costs:
    """Days are ``YYYY-MM-DD`` in UTC; ``to_day`` is the first one that is not meant."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def report(self, by: str = "team", **chosen: Asked) -> wire.CostReportView:
        """What some days cost: ``from_day``, ``to_day`` and ``limit`` choose."""
        return cast(wire.CostReportView, self._get("report", {"by": by, **chosen}))

    def diff(self, by: str = "team", **chosen: Asked) -> wire.CostDiff:
        """What changed: ``from_day``, ``to_day``, ``before_from``, ``before_to`` and ``limit``."""
        return cast(wire.CostDiff, self._get("diff", {"by": by, **chosen}))

    def budgets(self) -> list[wire.BudgetRow]:
        """What is spent, held and left of each budget."""
        return cast(wire.BudgetPage, self._client._get("/v1/budgets"))["items"]

    def forecast(self, tenant: str | None = None) -> list[wire.CostForecast]:
        """When each budget will be used up."""
        told = self._get("forecast", {"tenant": tenant})
        return cast(wire.CostForecasts, told)["items"]

    def statement(self, **chosen: Asked) -> wire.CostStatements:
        """``tenant``, ``from_day``, ``to_day``, ``kind``, ``idle`` and ``lines`` choose."""
        return cast(wire.CostStatements, self._get("statement", chosen))

    def savings(self, **chosen: Asked) -> wire.CostSavings:
        """``baseline``, ``from_day``, ``to_day`` and ``price`` (a list of pool=dollars) choose."""
        return cast(wire.CostSavings, self._get("savings", chosen))

    def export(self, form: str = "csv", **chosen: Asked) -> bytes:
        """A file: csv, json, parquet, focus or focus-parquet; ``from_day`` and ``to_day`` choose."""
        path = f"/v1/cost/export{_query({'format': form, **chosen})}"
        return self._client._ask("GET", path).body

    def bill(self, bill: wire.BillRequest) -> wire.BillTaken:
        """Bring the books of days that are over to what a provider billed for a pool."""
        told = self._client._post("/v1/cost/bills", dict(bill), repeatable=False)
        return cast(wire.BillTaken, told)

    def _get(self, what: str, chosen: Mapping[str, Asked]) -> object:
        return self._client._get(f"/v1/cost/{what}{_query(chosen)}")


def _query(chosen: Mapping[str, Asked]) -> str:
    names = {"from_day": "from", "to_day": "to"}
    said = {
        names.get(name, name): value
        for name, value in chosen.items()
        if value is not None and value != "" and value != []
    }
    return f"?{urlencode(said, doseq=True)}" if said else ""
