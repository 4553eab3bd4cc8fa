"""The metadata servers that are polled for interruption notices, from ``bursar up --spot-notices``.

``aws`` polls this machine's server, for all local spot nodes. ``NODE=aws@http://host:port`` polls another
address, such as a relay on that node, for one node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bursar.model.errors import UserError

if TYPE_CHECKING:
    from bursar.model.fleet.fleet import Fleet
    from bursar.ports import InterruptionSource

IsClear = Callable[[str], bool]
PROVIDERS = ("aws", "azure", "gcp")


def sources_for(
    words: Sequence[str], fleet: Fleet, is_clear: IsClear
) -> tuple[InterruptionSource, ...]:
    """One source for each value of the option."""
    return tuple(_source(word, fleet, is_clear) for word in words)


def _source(word: str, fleet: Fleet, is_clear: IsClear) -> InterruptionSource:
    from bursar.clouds.aws.spot_notices import ADDRESS as AWS
    from bursar.clouds.aws.spot_notices import AwsNotices
    from bursar.clouds.azure.spot_notices import ADDRESS as AZURE
    from bursar.clouds.azure.spot_notices import AzureNotices
    from bursar.clouds.gcp.spot_notices import ADDRESS as GCP
    from bursar.clouds.gcp.spot_notices import GcpNotices

    node, equals, rest = word.rpartition("=")
    provider, _, address = rest.partition("@")
    nodes = [node] if equals else spot_nodes_here(fleet)
    unknown = [one for one in nodes if one not in {known.id for known in fleet.nodes}]
    if provider not in PROVIDERS or unknown or (address and not address.startswith("http://")):
        raise UserError(
            f"--spot-notices {word[:80]!r} has an unknown provider, node or address.",
            fix=f"Write one of {', '.join(PROVIDERS)}, or NODE=aws@http://127.0.0.1:1338.",
            code="wrong-value",
        )
    match provider:
        case "aws":
            return AwsNotices(nodes, address or AWS)
        case "gcp":
            return GcpNotices(nodes, address or GCP)
        case _:
            return AzureNotices(nodes, address or AZURE, is_clear)


def spot_nodes_here(fleet: Fleet) -> list[str]:
    """Spot nodes of the local engine."""
    from bursar.model.fleet.fleet import EngineKind, Market

    here = {one.name for one in fleet.clusters if one.engine is EngineKind.LOCAL}
    pools = {
        pool.name for pool in fleet.pools if pool.market is Market.SPOT and pool.cluster in here
    }
    return sorted(node.id for node in fleet.nodes if node.pool in pools)
