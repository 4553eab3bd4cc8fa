"""Google Cloud: host and GPU SKUs added up, local SSD left out, in millionths of a dollar an hour."""

from __future__ import annotations

from bursar.catalog.prices.price_table import (
    AUGUST_21_2026_MS,
    SEPTEMBER_2026_MS,
    CloudTable,
    PublishedPrice,
)

# Instance type, GPU model, thousandths of GPUs, CPUs, GiB of memory.
_SHAPES = (
    ("n1-standard-4", "t4-16gb", 1_000, 4, 15),
    ("n1-standard-8", "t4-16gb", 1_000, 8, 30),
    ("n1-standard-32", "t4-16gb", 4_000, 32, 120),
    ("g2-standard-4", "l4-24gb", 1_000, 4, 16),
    ("g2-standard-8", "l4-24gb", 1_000, 8, 32),
    ("g2-standard-24", "l4-24gb", 2_000, 24, 96),
    ("g2-standard-48", "l4-24gb", 4_000, 48, 192),
    ("g2-standard-96", "l4-24gb", 8_000, 96, 384),
    ("g4-standard-48", "rtx-pro-6000-96gb", 1_000, 48, 180),
    ("g4-standard-384", "rtx-pro-6000-96gb", 8_000, 384, 1440),
    ("a2-highgpu-1g", "a100-40gb", 1_000, 12, 85),
    ("a2-highgpu-2g", "a100-40gb", 2_000, 24, 170),
    ("a2-highgpu-4g", "a100-40gb", 4_000, 48, 340),
    ("a2-highgpu-8g", "a100-40gb", 8_000, 96, 680),
    ("a2-megagpu-16g", "a100-40gb", 16_000, 96, 1360),
    ("a2-ultragpu-1g", "a100-80gb", 1_000, 12, 170),
    ("a2-ultragpu-2g", "a100-80gb", 2_000, 24, 340),
    ("a2-ultragpu-4g", "a100-80gb", 4_000, 48, 680),
    ("a2-ultragpu-8g", "a100-80gb", 8_000, 96, 1360),
    ("a3-highgpu-1g", "h100-80gb", 1_000, 26, 234),
    ("a3-highgpu-2g", "h100-80gb", 2_000, 52, 468),
    ("a3-highgpu-4g", "h100-80gb", 4_000, 104, 936),
    ("a3-highgpu-8g", "h100-80gb", 8_000, 208, 1872),
    ("a3-megagpu-8g", "h100-80gb", 8_000, 208, 1872),
    ("a3-ultragpu-8g", "h200-141gb", 8_000, 224, 2952),
    ("a4-highgpu-8g", "b200-180gb", 8_000, 224, 3968),
)
# Instance type, on demand, spot; 0 for no offer. Spot prices change at most once a day and have no zones.
_RATES = {
    "us-central1": (
        ("n1-standard-4", 540_000, 279_700),
        ("n1-standard-8", 730_000, 368_900),
        ("n1-standard-32", 2_920_000, 1_475_400),
        ("g2-standard-4", 706_800, 424_000),
        ("g2-standard-8", 853_600, 512_000),
        ("g2-standard-24", 2_000_800, 1_200_100),
        ("g2-standard-48", 4_001_700, 2_400_300),
        ("g2-standard-96", 8_003_300, 4_800_500),
        ("g4-standard-48", 4_499_900, 1_649_400),
        ("g4-standard-384", 35_999_400, 13_195_200),
        ("a2-highgpu-1g", 3_673_400, 2_120_800),
        ("a2-highgpu-2g", 7_346_800, 4_241_600),
        ("a2-highgpu-4g", 14_693_500, 8_483_200),
        ("a2-highgpu-8g", 29_387_100, 16_966_500),
        ("a2-megagpu-16g", 55_739_500, 32_181_000),
        ("a2-ultragpu-1g", 5_027_700, 2_903_200),
        ("a2-ultragpu-2g", 10_055_400, 5_806_400),
        ("a2-ultragpu-4g", 20_110_800, 11_612_900),
        ("a2-ultragpu-8g", 40_221_600, 23_225_800),
        ("a3-highgpu-1g", 10_979_100, 6_587_400),
        ("a3-highgpu-2g", 21_958_100, 13_174_800),
        ("a3-highgpu-4g", 43_916_200, 26_349_600),
        ("a3-highgpu-8g", 87_832_500, 52_699_100),
        ("a3-megagpu-8g", 92_214_300, 55_320_700),
        ("a3-ultragpu-8g", 86_759_900, 50_380_100),
        ("a4-highgpu-8g", 90_216_000, 39_633_600),
    ),
    "europe-west4": (
        ("n1-standard-4", 559_200, 324_500),
        ("g2-standard-4", 742_900, 445_800),
        ("a2-highgpu-1g", 3_748_000, 2_247_900),
        ("a2-ultragpu-8g", 44_285_700, 22_942_400),
        ("a3-highgpu-8g", 111_817_200, 53_013_400),
        ("a3-ultragpu-8g", 0, 55_272_400),
        ("a4-highgpu-8g", 90_216_000, 35_777_600),
    ),
    "asia-southeast1": (
        ("g2-standard-4", 872_000, 523_300),
        ("a2-highgpu-1g", 4_013_800, 2_408_300),
        ("a3-highgpu-8g", 113_555_000, 67_728_600),
        ("a4-highgpu-8g", 154_656_000, 39_216_800),
    ),
    "us-east4": (
        ("a3-highgpu-8g", 87_832_500, 43_521_400),
        ("a3-ultragpu-8g", 86_759_900, 50_772_300),
    ),
}
_PUBLISHED = (PublishedPrice("a3-highgpu-8g", "asia-southeast1", 3, 38_880_000, SEPTEMBER_2026_MS),)
_NO_SSD = "local SSD is not in it"
_SPOT_ONLY = (
    "sold as spot or flex-start; the on-demand price is that of a part of the larger machine"
)

GCP = CloudTable(
    cloud="gcp",
    shapes=_SHAPES,
    rates=_RATES,
    as_of_ms=AUGUST_21_2026_MS,
    reserved_milli=(
        ("n1-", 630, 460),
        ("g2-", 630, 450),
        ("g4-", 690, 450),
        ("a2-", 630, 350),
        ("a3-highgpu", 690, 440),
        ("a3-megagpu", 690, 440),
    ),
    published=_PUBLISHED,
    notes={
        "a3-highgpu-1g": _SPOT_ONLY,
        "a3-highgpu-2g": _SPOT_ONLY,
        "a3-highgpu-4g": _SPOT_ONLY,
        "a3-highgpu-8g": _NO_SSD,
        "a3-megagpu-8g": _NO_SSD,
        "a3-ultragpu-8g": f"{_NO_SSD}; commitments are negotiated",
        "a4-highgpu-8g": "the GPU's price has the whole machine in it; commitments are negotiated",
    },
)
