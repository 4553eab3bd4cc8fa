"""Detection of GPUs, with a fake driver."""

# ruff: noqa: N802 (names of the driver's functions)

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from bursar.engines.local.engine import LocalEngine
from bursar.engines.local.gpu_discovery import DetectedGpu, DetectedMigDevice, detect_gpus
from bursar.engines.local.settings import LocalSettings
from bursar.model.errors import EngineFault
from bursar.model.fleet.gpu import MigInstance


class NVMLError(Exception):
    """The bindings' error."""


class Driver:
    """Two boards: a T4 without MIG, and an A100 with one MIG device at number 3."""

    NVMLError = NVMLError
    NVML_DEVICE_MIG_ENABLE = 1

    def __init__(self, fails: str = "") -> None:
        self._fails = fails
        self.open = 0

    def nvmlInit(self) -> None:
        if self._fails == "init":
            raise NVMLError("Driver Not Loaded")
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        if self._fails == "count":
            raise NVMLError("GPU is lost")
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return ("t4", "a100")[index]

    def nvmlDeviceGetUUID(self, device: str) -> str | bytes:
        return b"GPU-t4" if device == "t4" else {"a100": "GPU-a100", "cut": "MIG-cut"}[device]

    def nvmlDeviceGetName(self, device: str) -> str:
        names = {"t4": "Tesla T4", "a100": "NVIDIA A100-SXM4-80GB"}
        return names.get(device, "NVIDIA A100-SXM4-80GB MIG 3g.40gb")

    def nvmlDeviceGetMemoryInfo(self, device: str) -> Any:
        return SimpleNamespace(total={"t4": 15_360, "a100": 81_920, "cut": 40_192}[device] << 20)

    def nvmlDeviceGetMigMode(self, device: str) -> tuple[int, int]:
        if device == "t4":
            raise NVMLError("Not Supported")
        return 1, 1

    def nvmlDeviceGetMaxMigDeviceCount(self, device: str) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: str, number: int) -> str:
        if number != 3:
            raise NVMLError("Not Found")
        return "cut"

    def nvmlDeviceGetGpuInstanceId(self, cut: str) -> int:
        return 9

    def nvmlDeviceGetGpuInstanceById(self, device: str, number: int) -> str:
        assert (device, number) == ("a100", 9)
        return "instance"

    def nvmlGpuInstanceGetInfo(self, instance: str) -> Any:
        return SimpleNamespace(placement=SimpleNamespace(start=4, size=4))


HALF = MigInstance(profile="3g.40gb", start=4)
CUT = DetectedMigDevice(uuid="MIG-cut", instance=HALF, memory_mib=40_192)
A100 = DetectedGpu(
    index=1,
    uuid="GPU-a100",
    model="NVIDIA A100-SXM4-80GB",
    memory_mib=81_920,
    slices=(CUT,),
)


def test_boards_and_their_mig_devices_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    assert detect_gpus() == (
        DetectedGpu(index=0, uuid="GPU-t4", model="Tesla T4", memory_mib=15_360),
        A100,
    )
    assert driver.open == 0


@pytest.mark.parametrize("driver", [None, Driver("init"), Driver("count")])
def test_no_gpus_are_detected_without_bindings_driver_or_board(
    monkeypatch: pytest.MonkeyPatch, driver: Driver | None
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    assert detect_gpus() == ()


def test_a_real_board_must_have_the_planned_mig_layout(tmp_path: Any) -> None:
    engine = LocalEngine(LocalSettings(state=tmp_path, gpus={"a": (A100,)}))
    engine.partition("a", 0, (HALF,))
    engine.partition("virtual", 0, (HALF, MigInstance(profile="3g.40gb", start=0)))
    with pytest.raises(EngineFault, match="nvidia-smi mig"):
        engine.partition("a", 0, ())
