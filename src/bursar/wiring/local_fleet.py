"""The default fleet: this machine, with its GPUs or with virtual ones."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bursar.config import FleetFile

THIS_MACHINE = "this-machine"
"""The node that has the machine's real GPUs, if any."""
VIRTUAL_GPUS = 4
RESERVED_MIB = 1024
"""Reserved for the machine itself."""

TEXT = """
clusters:
  here: {{engine: local}}
pools:
  {pool}:
    cluster: here
    market: owned
    gpu_model: {model}
    gpus_per_node: {gpus}
    cpus: {cpus}
    memory_gib: {memory_gib}
    usd_per_node_hour: {usd}
    nodes: [{node}]
tenants:
  everyone:
    children:
      default: {{}}
"""


def this_machine() -> FleetFile:
    """A fleet of one node; a machine without GPUs gets virtual ones.

    The price is an assumption (0.35 dollars an hour for each GPU): owned hardware is not free.
    """
    from bursar.catalog.gpu_models import find_gpu_model
    from bursar.config import parse_fleet
    from bursar.engines.local.gpu_discovery import detect_gpus

    found = detect_gpus()
    model, gpus = "t4", VIRTUAL_GPUS
    if found:
        model, gpus = find_gpu_model(found[0].model).name, len(found)
    memory_mib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    text = TEXT.format(
        pool="machine",
        model=model,
        gpus=gpus,
        cpus=os.cpu_count() or 1,
        memory_gib=max(1, (memory_mib - RESERVED_MIB) // 1024),
        usd=round(0.35 * gpus, 2),
        node=THIS_MACHINE,
    )
    return parse_fleet({"this machine": text})
