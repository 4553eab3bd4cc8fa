"""Allocations and releases in any order: capacity is never exceeded and the index is correct."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from bursar.catalog.gpu_models import find_gpu_model
from bursar.core.nodes.device import Device, DeviceKey
from bursar.core.nodes.slices import SlicePool, choose_instance
from bursar.model.errors import BrokenInvariant
from bursar.model.fleet.gpu import GpuMode, GpuModel, MigGeometry, MigInstance, slice_milli
from bursar.model.fleet.mig_layout import layouts

MODELS = [find_gpu_model(name) for name in ("a100-40gb", "a30", "rtx-pro-6000")]
HOLDERS = ("a", "b", "c", "d")
KEYS: tuple[DeviceKey, ...] = (("m", 0), ("m", 1), ("n", 0), ("n", 1))
CLIENT_LIMIT = 3


def geometry_of(model: GpuModel) -> MigGeometry:
    assert model.mig is not None
    return model.mig


def apply_random(draw: st.DataObject, device: Device) -> None:
    """One operation on a device; it may be rejected."""
    geometry = geometry_of(device.model)
    holder = draw.draw(st.sampled_from(HOLDERS))
    kinds = ("whole", "slice", "wrong slice", "share", "release", "give one back", "cut", "health")
    kind = draw.draw(st.sampled_from(kinds))
    if kind == "whole":
        device.take_whole(holder)
    elif kind == "slice":
        profile = draw.draw(st.sampled_from(geometry.profile_names))
        if (instance := choose_instance(device, profile)) is not None:
            device.take_slice(instance, holder)
    elif kind == "wrong slice":
        profile = draw.draw(st.sampled_from(geometry.profile_names))
        device.take_slice(MigInstance(profile=profile, start=draw.draw(st.integers(0, 7))), holder)
    elif kind == "share":
        percent = draw.draw(st.integers(0, 60))
        device.take_share(holder, percent, draw.draw(st.integers(0, device.model.memory_mib)))
    elif kind == "release":
        release_all(device, holder)
    elif kind == "give one back":
        release_one(draw, device, holder)
    elif kind == "cut":
        device.partition(draw.draw(st.sampled_from(((), *layouts(geometry)))))
    else:
        device.healthy = not device.healthy


def release_one(draw: st.DataObject, device: Device, holder: str) -> None:
    for share in device.shares.get(holder, ())[:1]:
        device.release_share(holder, share.percent, share.memory_mib)
    mine = [instance for instance, its_holder in device.held.items() if its_holder == holder]
    if mine:
        device.release_slice(draw.draw(st.sampled_from(mine)), holder)


def release_all(device: Device, holder: str) -> None:
    """Everything that a holder has; refused if it has nothing."""
    mine = [instance for instance, its_holder in device.held.items() if its_holder == holder]
    shares = device.shares.get(holder, ())
    for instance in mine:
        device.release_slice(instance, holder)
    for share in shares:
        device.release_share(holder, share.percent, share.memory_mib)
    if not mine and not shares:
        device.release_whole(holder)


def assert_within_capacity(device: Device) -> None:
    geometry = geometry_of(device.model)
    shares = [share for held in device.shares.values() for share in held]
    in_use = (device.whole_holder is not None, bool(device.held), bool(shares))
    assert sum(in_use) <= 1, "isolation classes never mix"
    assert bool(device.layout) == (device.mode is GpuMode.MIG)
    assert (device.mode is GpuMode.WHOLE) == in_use[0]
    assert (device.mode is GpuMode.MPS) == in_use[2]
    assert set(device.held) <= set(device.layout)
    slots = [
        slot
        for instance in device.layout
        for slot in range(instance.start, instance.start + memory_slices(geometry, instance))
    ]
    assert len(slots) == len(set(slots)) and all(slot < geometry.memory_slices for slot in slots)
    assert sum(share.percent for share in shares) <= 100
    assert sum(share.memory_mib for share in shares) <= device.model.memory_mib
    assert len(shares) <= CLIENT_LIMIT
    assert device.used_milli == used_milli(device, geometry)


def used_milli(device: Device, geometry: MigGeometry) -> int:
    """The fraction in use, counted anew from what is held."""
    if device.mode is GpuMode.WHOLE:
        return 1000
    shares = [share for held in device.shares.values() for share in held]
    held_milli = sum(slice_milli(geometry, instance.profile) for instance in device.held)
    return min(1000, held_milli + 10 * sum(share.percent for share in shares))


def memory_slices(geometry: MigGeometry, instance: MigInstance) -> int:
    return geometry[instance.profile].memory_slices


def slices_by_scan(devices: dict[DeviceKey, Device], profile: str) -> list[DeviceKey]:
    """The expected result of ``slice_candidates``, by a full scan."""
    matching, rest = [], []
    for key, device in devices.items():
        geometry = geometry_of(device.model)
        free = [instance for instance in device.layout if instance not in device.held]
        if not device.healthy:
            continue
        if any(instance.profile == profile for instance in free):
            slices = sum(memory_slices(geometry, instance) for instance in free)
            matching.append((slices, key))
        elif device.is_vacant:
            rest.append((device.mode is GpuMode.MIG, key))
    return [key for _, key in sorted(matching)] + [key for _, key in sorted(rest)]


def shares_by_scan(
    devices: dict[DeviceKey, Device], percent: int, memory_mib: int
) -> list[DeviceKey]:
    """The expected result of ``share_candidates``, by a full scan."""
    fitting, rest = [], []
    for key, device in devices.items():
        shares = [share for held in device.shares.values() for share in held]
        left = 100 - sum(share.percent for share in shares)
        left_mib = device.model.memory_mib - sum(share.memory_mib for share in shares)
        if not device.healthy or memory_mib > left_mib or percent > left:
            continue
        if device.mode is GpuMode.MPS and len(shares) < CLIENT_LIMIT:
            fitting.append((left, key))
        elif device.is_vacant:
            rest.append((device.mode is GpuMode.MIG, key))
    return [key for _, key in sorted(fitting)] + [key for _, key in sorted(rest)]


@given(st.data())
def test_no_order_of_events_exceeds_a_gpu_or_corrupts_the_index(data: st.DataObject) -> None:
    model = data.draw(st.sampled_from(MODELS))
    devices = {key: Device(model, mps_client_limit=CLIENT_LIMIT) for key in KEYS}
    pool = SlicePool(model.mig)
    for key in data.draw(st.permutations(KEYS)):
        pool.add(key, devices[key])
    for _ in range(data.draw(st.integers(1, 40))):
        key = data.draw(st.sampled_from(KEYS))
        with suppress(BrokenInvariant):
            apply_random(data, devices[key])
        pool.update(key)
        assert_within_capacity(devices[key])
        for profile in geometry_of(model).profile_names:
            assert list(pool.slice_candidates(profile)) == slices_by_scan(devices, profile)
        percent = data.draw(st.integers(1, 100))
        memory_mib = data.draw(st.integers(0, model.memory_mib))
        found = list(pool.share_candidates(percent, memory_mib))
        assert found == shares_by_scan(devices, percent, memory_mib)
        whole = [
            (d.mode is GpuMode.MIG, k) for k, d in devices.items() if d.healthy and d.is_vacant
        ]
        assert list(pool.share_candidates(100, 0)) == [k for _, k in sorted(whole)]


@given(st.data())
def test_allocating_a_candidate_never_fails_and_ends_when_nothing_is_free(
    data: st.DataObject,
) -> None:
    model = data.draw(st.sampled_from(MODELS))
    geometry = geometry_of(model)
    layout = data.draw(st.sampled_from(layouts(geometry)))
    pool = SlicePool(geometry)
    for key in KEYS:
        pool.add(key, Device(model))
        pool[key].partition(layout)
        pool.update(key)
    for instance in data.draw(st.permutations(layout * len(KEYS))):
        key = next(pool.slice_candidates(instance.profile))
        chosen = choose_instance(pool[key], instance.profile)
        assert chosen is not None
        pool[key].take_slice(chosen, "h")
        pool.update(key)
    assert all(len(pool[key].held) == len(layout) for key in KEYS)
    assert all(not list(keys) for keys in pool.free_by_profile.values())
    for key in KEYS:
        release_all(pool[key], "h")
        pool.update(key)
    assert list(pool.share_candidates(100, 0)) == sorted(KEYS)
