"""The GPUs of this machine, as its driver tells them. Without a driver there are none, which is no fault."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bursar.model.fleet.gpu import MigInstance


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSlice:
    """A MIG instance that is cut now."""

    uuid: str
    instance: MigInstance
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundGpu:
    """One real GPU. ``model`` is the vendor's name for it; the catalog knows which of ours that is."""

    index: int
    uuid: str
    model: str
    memory_mib: int
    mig_enabled: bool = False
    slices: tuple[FoundSlice, ...] = ()

    def slice_uuid(self, instance: MigInstance) -> str | None:
        """The name under which CUDA sees this instance, when it is cut."""
        return next((cut.uuid for cut in self.slices if cut.instance == instance), None)


def found_gpus() -> tuple[FoundGpu, ...]:
    """Every GPU of this machine in order of index; none without NVML, a driver or a board."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return ()
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return ()
    try:
        return tuple(_found(nvml, index) for index in range(nvml.nvmlDeviceGetCount()))
    except nvml.NVMLError:
        return ()
    finally:
        nvml.nvmlShutdown()


def _found(nvml: Any, index: int) -> FoundGpu:
    device = nvml.nvmlDeviceGetHandleByIndex(index)
    enabled = _is_cut(nvml, device)
    slices = sorted(_slices(nvml, device), key=lambda cut: cut.instance.start) if enabled else ()
    return FoundGpu(
        index=index,
        uuid=_text(nvml.nvmlDeviceGetUUID(device)),
        model=_text(nvml.nvmlDeviceGetName(device)),
        memory_mib=nvml.nvmlDeviceGetMemoryInfo(device).total >> 20,
        mig_enabled=enabled,
        slices=tuple(slices),
    )


def _is_cut(nvml: Any, device: Any) -> bool:
    """Boards that cannot be cut refuse the question."""
    try:
        current, _ = nvml.nvmlDeviceGetMigMode(device)
    except nvml.NVMLError:
        return False
    return bool(current == nvml.NVML_DEVICE_MIG_ENABLE)


def _slices(nvml: Any, device: Any) -> Iterator[FoundSlice]:
    """Instances are numbered with gaps, so each possible number is asked for."""
    for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(device)):
        try:
            cut = nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, number)
        except nvml.NVMLError:
            continue
        own = nvml.nvmlDeviceGetGpuInstanceById(device, nvml.nvmlDeviceGetGpuInstanceId(cut))
        placement = nvml.nvmlGpuInstanceGetInfo(own).placement
        profile = _text(nvml.nvmlDeviceGetName(cut)).rpartition("MIG ")[2]
        yield FoundSlice(
            uuid=_text(nvml.nvmlDeviceGetUUID(cut)),
            instance=MigInstance(profile=profile, start=placement.start),
            memory_mib=nvml.nvmlDeviceGetMemoryInfo(cut).total >> 20,
        )


def _text(value: str | bytes) -> str:
    """Older bindings answer in bytes."""
    return value.decode() if isinstance(value, bytes) else value
