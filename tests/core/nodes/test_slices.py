"""Shared GPUs: rules of one device, partitioning of an idle one, and the order of candidates."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.catalog.gpu_models import GPU_MODELS, find_gpu_model
from bursar.core.nodes.device import Device, GpuShareHolding
from bursar.core.nodes.slices import SlicePool, choose_instance, layout_for
from bursar.model.errors import BrokenInvariant
from bursar.model.fleet.gpu import GpuMode, Layout, MigGeometry, MigInstance, slice_milli
from bursar.model.fleet.mig_layout import layout_fault, layouts

A100 = find_gpu_model("a100-40gb")
T4 = find_gpu_model("t4")
GEOMETRIES = [model.mig for model in GPU_MODELS if model.mig is not None]


def a100_geometry() -> MigGeometry:
    assert A100.mig is not None
    return A100.mig


def cut(text: str) -> Layout:
    """``1g.5gb@0 2g.10gb@2`` as instances."""
    parts = [part.split("@") for part in text.split()]
    return tuple(MigInstance(profile=profile, start=int(start)) for profile, start in parts)


def one(text: str) -> MigInstance:
    return cut(text)[0]


BALANCED = cut("1g.5gb@0 1g.5gb@1 2g.10gb@2 3g.20gb@4")


def cut_device(layout: Layout = BALANCED) -> Device:
    device = Device(A100)
    device.partition(layout)
    return device


def used_whole() -> Device:
    device = Device(A100)
    device.take_whole("w")
    return device


def with_slice_held() -> Device:
    device = cut_device()
    device.take_slice(one("2g.10gb@2"), "s")
    return device


def shared(percent: int = 40, memory_mib: int = 10_000) -> Device:
    device = Device(A100)
    device.take_share("m", percent, memory_mib)
    return device


def unhealthy(device: Device) -> Device:
    device.healthy = False
    return device


def snapshot(device: Device) -> tuple[object, ...]:
    free = tuple((name, device.free_instances(name)) for name in device.free_profiles())
    shown = (device.mode, device.whole_holder, device.layout, device.healthy, free)
    counted = (device.used_milli, device.free_percent, device.free_memory_slices)
    return (*shown, *counted, dict(device.held), dict(device.shares))


Act = Callable[[Device], None]

REFUSALS: dict[str, tuple[Callable[[], Device], Act]] = {
    "a GPU in use is not taken again": (used_whole, lambda d: d.take_whole("x")),
    "a whole user never meets a MIG tenant": (with_slice_held, lambda d: d.take_whole("x")),
    "a layout is dropped explicitly, not by taking the GPU": (
        cut_device,
        lambda d: d.take_whole("x"),
    ),
    "a whole user never meets an MPS client": (shared, lambda d: d.take_whole("x")),
    "an MPS client never meets a whole user": (used_whole, lambda d: d.take_share("x", 10, 0)),
    "an MPS client never meets a MIG tenant": (with_slice_held, lambda d: d.take_share("x", 1, 0)),
    "an MPS client does not sit on a cut GPU": (cut_device, lambda d: d.take_share("x", 1, 0)),
    "a slice needs a cut": (lambda: Device(A100), lambda d: d.take_slice(one("1g.5gb@0"), "x")),
    "a slice is not taken of a GPU in whole use": (
        used_whole,
        lambda d: d.take_slice(one("7g.40gb@0"), "x"),
    ),
    "a held slice is not taken again": (
        with_slice_held,
        lambda d: d.take_slice(one("2g.10gb@2"), "x"),
    ),
    "a slice that was not cut is not taken": (
        cut_device,
        lambda d: d.take_slice(one("1g.5gb@6"), "x"),
    ),
    "shares do not exceed the GPU": (shared, lambda d: d.take_share("x", 61, 0)),
    "shares do not exceed its memory": (shared, lambda d: d.take_share("x", 1, 31_000)),
    "a share is not empty": (shared, lambda d: d.take_share("x", 0, 0)),
    "a share has no negative memory": (shared, lambda d: d.take_share("x", 1, -1)),
    "a cut under a tenant is refused": (with_slice_held, lambda d: d.partition(())),
    "a cut under a whole user is refused": (used_whole, lambda d: d.partition(BALANCED)),
    "a cut under an MPS client is refused": (shared, lambda d: d.partition(BALANCED)),
    "a faulty layout is refused": (
        lambda: Device(A100),
        lambda d: d.partition(cut("4g.20gb@0 2g.10gb@2")),
    ),
    "a board without MIG is not cut": (lambda: Device(T4), lambda d: d.partition(BALANCED)),
    "only the holder releases the GPU": (used_whole, lambda d: d.release_whole("x")),
    "only the holder releases its slice": (
        with_slice_held,
        lambda d: d.release_slice(one("2g.10gb@2"), "x"),
    ),
    "a holder releases only what it holds": (
        with_slice_held,
        lambda d: d.release_slice(one("1g.5gb@0"), "s"),
    ),
    "there is no slice to release on a shared GPU": (
        shared,
        lambda d: d.release_slice(one("1g.5gb@0"), "m"),
    ),
    "an idle GPU has nothing to release": (lambda: Device(A100), lambda d: d.release_whole("x")),
    "a share is released as it was taken": (shared, lambda d: d.release_share("m", 40, 9_999)),
    "nothing starts on an unhealthy GPU": (
        lambda: unhealthy(Device(A100)),
        lambda d: d.take_whole("x"),
    ),
    "no slice starts on an unhealthy GPU": (
        lambda: unhealthy(cut_device()),
        lambda d: d.take_slice(one("1g.5gb@0"), "x"),
    ),
    "no share starts on an unhealthy GPU": (
        lambda: unhealthy(shared()),
        lambda d: d.take_share("x", 1, 0),
    ),
}


@pytest.mark.parametrize(("build", "act"), REFUSALS.values(), ids=REFUSALS.keys())
def test_invalid_operations_are_refused_and_change_nothing(
    build: Callable[[], Device], act: Act
) -> None:
    device = build()
    before = snapshot(device)
    with pytest.raises(BrokenInvariant):
        act(device)
    assert snapshot(device) == before


def test_a_whole_gpu_is_idle_when_its_holder_releases_it() -> None:
    device = used_whole()
    assert (device.mode, device.used_milli, device.holders) == (GpuMode.WHOLE, 1000, ("w",))
    device.release_whole("w")
    assert (device.mode, device.used_milli, device.holders) == (GpuMode.IDLE, 0, ())


def test_a_layout_remains_when_its_last_slice_is_released_until_it_is_removed() -> None:
    device = with_slice_held()
    assert (device.used_milli, device.is_vacant) == (285, False)
    device.release_slice(one("2g.10gb@2"), "s")
    assert (device.mode, device.layout) == (GpuMode.MIG, BALANCED)
    assert device.is_vacant
    device.partition(())
    assert (device.layout, device.mode) == ((), GpuMode.IDLE)


def test_a_holder_of_several_slices_releases_one_or_all() -> None:
    device = cut_device()
    for text in ("1g.5gb@0", "1g.5gb@1", "3g.20gb@4"):
        device.take_slice(one(text), "h")
    device.release_slice(one("1g.5gb@0"), "h")
    assert device.held == {one("1g.5gb@1"): "h", one("3g.20gb@4"): "h"}
    for text in ("1g.5gb@1", "3g.20gb@4"):
        device.release_slice(one(text), "h")
    assert device.held == {} and device.free_memory_slices == 8


def test_a_holder_of_several_shares_releases_one_or_all() -> None:
    device = Device(A100)
    for percent in (10, 20, 20):
        device.take_share("h", percent, 100)
    device.release_share("h", 20, 100)
    twenty, ten = (GpuShareHolding(percent=part, memory_mib=100) for part in (20, 10))
    assert device.shares == {"h": (ten, twenty)}
    assert (device.used_milli, device.free_percent) == (300, 70)
    for percent in (20, 10):
        device.release_share("h", percent, 100)
    assert device.mode is GpuMode.IDLE and device.shares == {}


def test_mps_accepts_no_more_clients_than_its_limit() -> None:
    device = Device(A100, mps_client_limit=2)
    device.take_share("a", 1, 0)
    device.take_share("a", 1, 0)
    assert not device.can_share(1, 0)
    device.release_share("a", 1, 0)
    assert device.can_share(1, 0)


def test_holders_can_release_an_unhealthy_gpu() -> None:
    device = unhealthy(with_slice_held())
    assert device.free_instances("1g.5gb") == () and device.free_profiles() == ()
    device.release_slice(one("2g.10gb@2"), "s")
    assert device.is_vacant


def test_a_full_layout_counts_as_one_gpu_though_its_slices_add_up_to_more() -> None:
    device = cut_device(cut("4g.20gb@0 3g.20gb@4"))
    device.take_slice(one("4g.20gb@0"), "a")
    device.take_slice(one("3g.20gb@4"), "b")
    assert device.used_milli == 1000


MILLI = {
    "a 1g counts by compute": ("1g.5gb", 142),
    "a double-memory 1g counts by memory": ("1g.10gb", 250),
    "a 2g counts by compute": ("2g.10gb", 285),
    "a 3g counts by memory": ("3g.20gb", 500),
    "a 4g counts by compute": ("4g.20gb", 571),
    "a 7g is the GPU": ("7g.40gb", 1000),
}


@pytest.mark.parametrize(("profile", "milli"), MILLI.values(), ids=MILLI.keys())
def test_a_slice_counts_by_its_largest_fraction(profile: str, milli: int) -> None:
    assert slice_milli(a100_geometry(), profile) == milli


CHOICES = {
    "a 1g is taken from the top": (BALANCED, "1g.5gb", "1g.5gb@1"),
    "a 3g is taken from the top": (cut("3g.20gb@0 3g.20gb@4"), "3g.20gb", "3g.20gb@4"),
    "a 2g is taken from the bottom": (cut("2g.10gb@0 2g.10gb@4"), "2g.10gb", "2g.10gb@0"),
}


@pytest.mark.parametrize(("layout", "profile", "chosen"), CHOICES.values(), ids=CHOICES.keys())
def test_the_instance_that_wastes_least_capacity_is_chosen(
    layout: Layout, profile: str, chosen: str
) -> None:
    device = cut_device(layout)
    assert choose_instance(device, profile) == one(chosen)
    device.take_slice(one(chosen), "h")
    assert choose_instance(device, profile) != one(chosen)
    device.release_slice(one(chosen), "h")
    assert choose_instance(device, profile) == one(chosen)


def test_no_instance_is_chosen_if_none_fits() -> None:
    assert choose_instance(cut_device(), "7g.40gb") is None
    assert choose_instance(Device(A100), "1g.5gb") is None


LAYOUTS: dict[str, tuple[str, dict[str, int], str | None]] = {
    "alone, as many like it as strand nothing": (
        "2g.10gb",
        {},
        "2g.10gb@0 2g.10gb@2 2g.10gb@4 1g.10gb@6",
    ),
    "a crowd of 1g gets seven, though a memory slice is stranded": (
        "1g.5gb",
        {"1g.5gb": 50},
        " ".join(f"1g.5gb@{start}" for start in range(7)),
    ),
    "a mixed demand is served whole": (
        "1g.5gb",
        {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1},
        "1g.5gb@0 1g.5gb@1 2g.10gb@2 3g.20gb@4",
    ),
    "two 3g share a GPU": ("3g.20gb", {"3g.20gb": 2}, "3g.20gb@0 3g.20gb@4"),
    "a waiting 4g joins a 3g": ("3g.20gb", {"4g.20gb": 1, "1g.5gb": 1}, "4g.20gb@0 3g.20gb@4"),
    "the largest takes the GPU": ("7g.40gb", {"1g.5gb": 9}, "7g.40gb@0"),
    "the wanted one is served before larger demand": (
        "1g.5gb",
        {"7g.40gb": 5, "4g.20gb": 1},
        "4g.20gb@0 1g.5gb@4 1g.5gb@5 1g.10gb@6",
    ),
    "media engines are cut when asked for": (
        "1g.5gb+me",
        {"3g.20gb": 2},
        "1g.5gb@0 1g.5gb@1 1g.5gb@2 1g.5gb+me@3 3g.20gb@4",
    ),
    "a profile of another board has no layout": ("3g.40gb", {}, None),
}


@pytest.mark.parametrize(("wanted", "demand", "layout"), LAYOUTS.values(), ids=LAYOUTS.keys())
def test_an_idle_gpu_is_partitioned_for_the_waiting_requests(
    wanted: str, demand: dict[str, int], layout: str | None
) -> None:
    expected = None if layout is None else cut(layout)
    assert layout_for(a100_geometry(), wanted, demand) == expected


@given(st.data())
def test_an_ordered_layout_is_maximal_and_contains_the_request_and_no_idle_media_engines(
    data: st.DataObject,
) -> None:
    geometry = data.draw(st.sampled_from(GEOMETRIES))
    names = st.sampled_from(geometry.profile_names)
    wanted = data.draw(names)
    demand = data.draw(st.dictionaries(names, st.integers(0, 9)))
    layout = layout_for(geometry, wanted, demand)
    assert layout is not None
    assert layout_fault(geometry, layout) is None
    assert layout in layouts(geometry)
    profiles = {instance.profile for instance in layout}
    assert wanted in profiles
    assert all(demand.get(name) or name == wanted for name in profiles if "+" in name)
    best = max(
        _served(geometry, other, wanted, demand)
        for other in layouts(geometry)
        if wanted in {instance.profile for instance in other}
    )
    assert _served(geometry, layout, wanted, demand) == best


def _served(geometry: MigGeometry, layout: Layout, wanted: str, demand: dict[str, int]) -> int:
    """The waiting capacity that a layout serves, computed request by request."""
    waiting = {**demand, wanted: max(1, demand.get(wanted, 0))}
    served = 0
    for instance in layout:
        if waiting.get(instance.profile, 0) > 0:
            waiting[instance.profile] -= 1
            served += slice_milli(geometry, instance.profile)
    return served


def pool_of(*devices: Device) -> SlicePool:
    pool = SlicePool(A100.mig)
    for number, device in enumerate(devices):
        pool.add(("n", number), device)
    return pool


def test_slices_go_to_the_fullest_match_then_to_a_gpu_that_can_be_partitioned() -> None:
    other_cut = cut_device(cut("4g.20gb@0 3g.20gb@4"))
    pool = pool_of(Device(A100), other_cut, cut_device(), used_whole(), with_slice_held(), shared())
    assert [key[1] for key in pool.slice_candidates("1g.5gb")] == [4, 2, 0, 1]
    assert list(pool.free_by_profile["1g.5gb"]) == [("n", 4), ("n", 2)]


def test_a_profile_of_another_board_has_no_candidates() -> None:
    assert list(pool_of(Device(A100)).slice_candidates("3g.40gb")) == []


def test_shares_go_to_the_tightest_fit_then_to_a_gpu_without_holders() -> None:
    pool = pool_of(Device(A100), shared(10), shared(60), shared(90), cut_device(), used_whole())
    assert [key[1] for key in pool.share_candidates(40, 1_000)] == [2, 1, 0, 4]
    assert [key[1] for key in pool.share_candidates(5, 35_000)] == [0, 4]
    assert list(pool.share_candidates(101, 0)) == []


def test_whole_requests_go_to_an_idle_gpu_then_to_a_partitioned_one_without_holders() -> None:
    pool = pool_of(cut_device(), with_slice_held(), Device(A100), shared(), unhealthy(Device(A100)))
    assert [key[1] for key in pool.share_candidates(100, 0)] == [2, 0]


def test_candidates_are_lazy_and_invalid_after_a_change() -> None:
    pool = pool_of(cut_device(), cut_device())
    candidates = pool.slice_candidates("1g.5gb")
    first = next(candidates)
    pool[first].take_slice(one("1g.5gb@1"), "h")
    pool.update(first)
    with pytest.raises(BrokenInvariant, match="changed during an iteration"):
        next(candidates)
    assert next(pool.slice_candidates("1g.5gb")) == first


def test_a_pool_knows_its_devices() -> None:
    pool = pool_of(Device(A100))
    with pytest.raises(BrokenInvariant, match="already"):
        pool.add(("n", 0), Device(A100))
    with pytest.raises(BrokenInvariant, match="another MIG geometry"):
        pool.add(("n", 1), Device(T4))


def test_gpus_without_mig_can_be_shared() -> None:
    pool = SlicePool(None)
    pool.add(("n", 0), Device(T4))
    assert list(pool.share_candidates(50, 8_000)) == [("n", 0)]
    assert list(pool.slice_candidates("1g.5gb")) == []
