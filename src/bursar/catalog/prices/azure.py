"""Azure: Linux, pay as you go, in millionths of a dollar an hour.

No spot price here is of today: those that were read are of April 2025, the others are estimated.
"""

from __future__ import annotations

from bursar.catalog.prices.price_table import (
    APRIL_28_2025_MS,
    JUNE_18_2026_MS,
    MAY_2026_MS,
    OCTOBER_2026_MS,
    CloudTable,
    PublishedPrice,
)

# Instance type, GPU model, thousandths of GPUs, CPUs, GiB of memory.
_SHAPES = (
    ("Standard_NC6s_v3", "v100-16gb", 1_000, 6, 112),
    ("Standard_NC24rs_v3", "v100-16gb", 4_000, 24, 448),
    ("Standard_NC4as_T4_v3", "t4-16gb", 1_000, 4, 28),
    ("Standard_NC8as_T4_v3", "t4-16gb", 1_000, 8, 56),
    ("Standard_NC16as_T4_v3", "t4-16gb", 1_000, 16, 110),
    ("Standard_NC64as_T4_v3", "t4-16gb", 4_000, 64, 440),
    ("Standard_NC24ads_A100_v4", "a100-80gb", 1_000, 24, 220),
    ("Standard_NC48ads_A100_v4", "a100-80gb", 2_000, 48, 440),
    ("Standard_NC96ads_A100_v4", "a100-80gb", 4_000, 96, 880),
    ("Standard_ND96asr_v4", "a100-40gb", 8_000, 96, 900),
    ("Standard_ND96amsr_A100_v4", "a100-80gb", 8_000, 96, 1900),
    ("Standard_NC40ads_H100_v5", "h100-nvl-94gb", 1_000, 40, 320),
    ("Standard_NC80adis_H100_v5", "h100-nvl-94gb", 2_000, 80, 640),
    ("Standard_ND96isr_H100_v5", "h100-80gb", 8_000, 96, 1900),
    ("Standard_NV6ads_A10_v5", "a10-24gb", 167, 6, 55),
    ("Standard_NV12ads_A10_v5", "a10-24gb", 333, 12, 110),
    ("Standard_NV18ads_A10_v5", "a10-24gb", 500, 18, 220),
    ("Standard_NV36ads_A10_v5", "a10-24gb", 1_000, 36, 440),
    ("Standard_NV72ads_A10_v5", "a10-24gb", 2_000, 72, 880),
    ("Standard_ND96isr_H200_v5", "h200-141gb", 8_000, 96, 1850),
    ("Standard_ND96isr_MI300X_v5", "mi300x-192gb", 8_000, 96, 1850),
)
# Instance type, on demand, spot as it was in April 2025; 0 where none was read.
_RATES = {
    "eastus": (
        ("Standard_NC6s_v3", 3_060_000, 397_800),
        ("Standard_NC24rs_v3", 13_460_000, 1_749_800),
        ("Standard_NC4as_T4_v3", 526_000, 62_700),
        ("Standard_NC8as_T4_v3", 752_000, 89_600),
        ("Standard_NC16as_T4_v3", 1_204_000, 143_500),
        ("Standard_NC64as_T4_v3", 4_352_000, 518_800),
        ("Standard_NC24ads_A100_v4", 3_673_000, 444_400),
        ("Standard_NC48ads_A100_v4", 7_346_000, 888_900),
        ("Standard_NC96ads_A100_v4", 14_692_000, 1_777_700),
        ("Standard_ND96asr_v4", 27_197_000, 2_991_700),
        ("Standard_ND96amsr_A100_v4", 32_770_000, 3_604_700),
        ("Standard_NC40ads_H100_v5", 6_980_000, 0),
        ("Standard_NC80adis_H100_v5", 13_960_000, 0),
        ("Standard_ND96isr_H100_v5", 98_320_000, 0),
        ("Standard_NV6ads_A10_v5", 454_000, 0),
        ("Standard_NV12ads_A10_v5", 908_000, 0),
        ("Standard_NV18ads_A10_v5", 1_600_000, 0),
        ("Standard_NV36ads_A10_v5", 3_200_000, 800_000),
        ("Standard_NV72ads_A10_v5", 6_520_000, 1_630_000),
    ),
    "eastus2": (
        ("Standard_ND96isr_H200_v5", 84_800_000, 0),
        ("Standard_ND96isr_MI300X_v5", 48_000_000, 0),
    ),
    "westeurope": (
        ("Standard_NC4as_T4_v3", 658_000, 0),
        ("Standard_NC24ads_A100_v4", 4_775_000, 0),
        ("Standard_ND96asr_v4", 35_357_000, 0),
        ("Standard_NC40ads_H100_v5", 9_080_000, 0),
        ("Standard_ND96isr_H100_v5", 127_816_000, 0),
        ("Standard_NV36ads_A10_v5", 4_160_000, 0),
    ),
    "southeastasia": (
        ("Standard_NC4as_T4_v3", 736_000, 0),
        ("Standard_NC24ads_A100_v4", 4_775_000, 0),
        ("Standard_NC40ads_H100_v5", 9_074_000, 0),
        ("Standard_ND96isr_H200_v5", 110_240_000, 0),
    ),
}
_PUBLISHED = (
    PublishedPrice("Standard_ND96isr_H100_v5", "eastus", 1, 63_440_000, MAY_2026_MS, "reservation"),
    PublishedPrice("Standard_ND96isr_H100_v5", "eastus", 3, 43_760_000, MAY_2026_MS, "reservation"),
    PublishedPrice(
        "Standard_ND96isr_H200_v5", "eastus2", 3, 42_222_000, OCTOBER_2026_MS, "reservation"
    ),
)
_RETIRED = "retired on 2025-09-30"
_ROSE = "one reading of November 2026 has it 30 % dearer"

AZURE = CloudTable(
    cloud="azure",
    shapes=_SHAPES,
    rates=_RATES,
    as_of_ms=JUNE_18_2026_MS,
    spot_as_of_ms=APRIL_28_2025_MS,
    spot_milli=185,
    reserved_milli=(("Standard_", 660, 470),),
    published=_PUBLISHED,
    notes={
        "Standard_NC6s_v3": _RETIRED,
        "Standard_NC24rs_v3": _RETIRED,
        "Standard_NC48ads_A100_v4": _ROSE,
        "Standard_NC96ads_A100_v4": _ROSE,
        "Standard_NC80adis_H100_v5": "one reading of November 2026 has it 26 % dearer",
    },
)
