"""Every spelling of a GPU model finds one canonical name."""

from __future__ import annotations

import pytest

from bursar.catalog.gpu_models import GPU_MODELS, find_gpu_model, plain_spelling
from bursar.model.errors import UserError

SPELLINGS = {
    "a SkyPilot name without memory is the smaller board": ("A100", "a100-40gb"),
    "a SkyPilot name with memory": ("A100-80GB", "a100-80gb"),
    "a SkyPilot name for the big V100": ("V100-32GB", "v100-32gb"),
    "a SkyPilot name in one word": ("RTXPRO6000", "rtx-pro-6000-96gb"),
    "a cloud's own flavour of the H100": ("H100-MEGA", "h100-80gb"),
    "a Slurm type in lower case": ("h100", "h100-80gb"),
    "a Slurm type with the vendor and underscores": ("nvidia_a100_80gb_pcie", "a100-80gb"),
    "a Kubernetes product label of an SXM board": ("NVIDIA-A100-SXM4-80GB", "a100-80gb"),
    "an old Kubernetes product label without the vendor": ("A100-SXM4-40GB", "a100-40gb"),
    "a Kubernetes product label of an H100": ("NVIDIA-H100-80GB-HBM3", "h100-80gb"),
    "a Kubernetes product label of a slower H100": ("NVIDIA-H100-PCIe", "h100-pcie-80gb"),
    "a Kubernetes product label of the NVL board": ("NVIDIA-H100-NVL", "h100-nvl-94gb"),
    "a label that names the CPU's memory": ("NVIDIA-GH200-480GB", "gh200-96gb"),
    "a label of a board with MIG": ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "a100-40gb"),
    "a label of a board shared in time": ("Tesla-T4-SHARED", "t4-16gb"),
    "a Google accelerator type": ("nvidia-tesla-t4", "t4-16gb"),
    "a Google accelerator type with memory": ("nvidia-h200-141gb", "h200-141gb"),
    "a driver's name with spaces": ("NVIDIA B300 SXM6 AC", "b300-269gb"),
    "a name from another vendor": ("AMD-Instinct-MI300X-OAM", "mi300x-192gb"),
    "the canonical name itself": ("k80-12gb", "k80-12gb"),
}


@pytest.mark.parametrize(("written", "name"), SPELLINGS.values(), ids=SPELLINGS.keys())
def test_any_spelling_finds_the_model(written: str, name: str) -> None:
    assert find_gpu_model(written).name == name
    assert find_gpu_model(f"  {written.swapcase()} ").name == name


def test_a_misspelt_model_has_suggestions() -> None:
    with pytest.raises(UserError, match="'a100-800gb' is not a known GPU model") as caught:
        find_gpu_model("a100-800gb")
    assert caught.value.code == "unknown-gpu-model"
    assert caught.value.fix.startswith("Did you mean 'a100-")
    assert "'a100-80gb'" in caught.value.fix


def test_an_unknown_model_lists_all_models() -> None:
    with pytest.raises(UserError) as caught:
        find_gpu_model("???")
    assert all(model.name in caught.value.fix for model in GPU_MODELS)


def test_canonical_names_contain_the_memory() -> None:
    for model in GPU_MODELS:
        nominal_gb = int(model.name.rsplit("-", 1)[1].removesuffix("gb"))
        assert plain_spelling(model.name) == model.name
        assert nominal_gb * 0.9 <= model.memory_mib / 1024 <= nominal_gb * 1.03, model.name


def test_models_are_unique_and_sorted() -> None:
    names = [model.name for model in GPU_MODELS]
    assert names == sorted(set(names))


SPEEDS = {
    "the A100 is the measure": ("a100-80gb", 1000),
    "an H100 is worth three": ("h100-80gb", 3169),
    "a B200 is worth seven": ("b200-180gb", 7211),
    "an L4 is worth four tenths": ("l4-24gb", 387),
    "a T4 is worth a fifth": ("t4-16gb", 208),
}


@pytest.mark.parametrize(("name", "milli"), SPEEDS.values(), ids=SPEEDS.keys())
def test_speed_is_relative_to_an_a100(name: str, milli: int) -> None:
    model = find_gpu_model(name)
    assert model.relative_speed_milli == milli
    assert not model.speed_estimated


def test_a_speed_without_a_vendor_figure_is_marked() -> None:
    assert find_gpu_model("rtx-pro-6000-96gb").speed_estimated
