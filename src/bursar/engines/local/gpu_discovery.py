"""Detects the GPUs of this machine through NVML. Without a driver there are none; that is no error."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bursar.model.fleet.gpu import MigInstance


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedMigDevice:
    """A MIG device that exists now."""

    uuid: str
    instance: MigInstance
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedGpu:
    """One real GPU. ``model`` is the vendor's name; the catalog maps it to ours."""

    index: int
    uuid: str
    model: str
    memory_mib: int
    slices: tuple[DetectedMigDevice, ...] = ()

    def slice_uuid(self, instance: MigInstance) -> str | None:
        """The UUID by which CUDA addresses this MIG instance, if it exists."""
        return next((mig.uuid for mig in self.slices if mig.instance == instance), None)


def detect_gpus() -> tuple[DetectedGpu, ...]:
    """GPUs of this machine in order of index; none without NVML, a driver or a board."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return ()
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return ()
    try:
        return tuple(_read_gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount()))
    except nvml.NVMLError:
        return ()
    finally:
        nvml.nvmlShutdown()


def _read_gpu(nvml: Any, index: int) -> DetectedGpu:
    device = nvml.nvmlDeviceGetHandleByIndex(index)
    slices = _mig_devices(nvml, device) if _has_mig(nvml, device) else ()
    return DetectedGpu(
        index=index,
        uuid=_text(nvml.nvmlDeviceGetUUID(device)),
        model=_text(nvml.nvmlDeviceGetName(device)),
        memory_mib=nvml.nvmlDeviceGetMemoryInfo(device).total >> 20,
        slices=tuple(sorted(slices, key=lambda mig: mig.instance.start)),
    )


def _has_mig(nvml: Any, device: Any) -> bool:
    """Boards without MIG support raise an error."""
    try:
        current, _ = nvml.nvmlDeviceGetMigMode(device)
    except nvml.NVMLError:
        return False
    return bool(current == nvml.NVML_DEVICE_MIG_ENABLE)


def _mig_devices(nvml: Any, device: Any) -> Iterator[DetectedMigDevice]:
    """Device numbers have gaps, so every possible number is tried."""
    for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(device)):
        try:
            mig = nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, number)
        except nvml.NVMLError:
            continue
        gpu_instance = nvml.nvmlDeviceGetGpuInstanceById(
            device, nvml.nvmlDeviceGetGpuInstanceId(mig)
        )
        placement = nvml.nvmlGpuInstanceGetInfo(gpu_instance).placement
        profile = _text(nvml.nvmlDeviceGetName(mig)).rpartition("MIG ")[2]
        yield DetectedMigDevice(
            uuid=_text(nvml.nvmlDeviceGetUUID(mig)),
            instance=MigInstance(profile=profile, start=placement.start),
            memory_mib=nvml.nvmlDeviceGetMemoryInfo(mig).total >> 20,
        )


def _text(value: str | bytes) -> str:
    """Older bindings return bytes."""
    return value.decode() if isinstance(value, bytes) else value
