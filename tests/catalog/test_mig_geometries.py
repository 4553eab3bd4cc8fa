"""MIG profiles of each board, and valid and invalid layouts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.catalog.gpu_models import GPU_MODELS, find_gpu_model
from bursar.catalog.mig_geometries import mig_geometry
from bursar.model.fleet.gpu import Layout, MigGeometry, MigInstance, slice_milli
from bursar.model.fleet.mig_layout import layout_fault, layouts

BOARDS = {
    "a30-24gb": "1g.6gb 1g.6gb+me 2g.12gb 2g.12gb+me 4g.24gb",
    "a100-40gb": "1g.5gb 1g.5gb+me 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb",
    "a100-80gb": "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
    "h100-80gb": "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
    "h100-nvl-94gb": "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb",
    "gh200-96gb": "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb",
    "h200-141gb": "1g.18gb 1g.18gb+me 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb",
    "b200-180gb": "1g.23gb 1g.23gb+me 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb",
    "gb200-186gb": "1g.23gb 1g.23gb+me 1g.47gb 2g.47gb 3g.93gb 4g.93gb 7g.186gb",
    "b300-269gb": "1g.34gb 1g.34gb+me 1g.67gb 2g.67gb 3g.135gb 4g.135gb 7g.269gb",
    "gb300-278gb": "1g.35gb 1g.35gb+me 1g.70gb 2g.70gb 3g.139gb 4g.139gb 7g.278gb",
    "rtx-pro-6000-96gb": "1g.24gb 2g.48gb 4g.96gb",
}
GEOMETRIES = [model.mig for model in GPU_MODELS if model.mig is not None]


def only(geometry: MigGeometry, *names: str) -> MigGeometry:
    """The same geometry, restricted to these profiles."""
    chosen = tuple(profile for profile in geometry.profiles if profile.name in names)
    return replace(geometry, profiles=chosen)


def board(name: str) -> MigGeometry:
    geometry = mig_geometry(name)
    assert geometry is not None
    return geometry


def parse_layout(text: str) -> Layout:
    """Parses ``1g.5gb@0 2g.10gb@2``."""
    parts = [part.split("@") for part in text.split()]
    return tuple(MigInstance(profile=profile, start=int(start)) for profile, start in parts)


@pytest.mark.parametrize(("name", "profiles"), BOARDS.items(), ids=BOARDS.keys())
def test_a_board_has_the_vendors_profiles(name: str, profiles: str) -> None:
    assert board(name).profile_names == tuple(profiles.split())


@pytest.mark.parametrize("name", BOARDS)
def test_an_instance_has_at_most_its_share_of_the_memory(name: str) -> None:
    geometry = board(name)
    memory_mib = find_gpu_model(name).memory_mib
    for profile in geometry.profiles:
        share_mib = memory_mib * profile.memory_slices / geometry.memory_slices
        assert share_mib * 0.85 <= profile.memory_mib <= share_mib, profile.name


def test_both_h100_models_have_the_same_geometry() -> None:
    assert mig_geometry("h100-pcie-80gb") == mig_geometry("h100-80gb")


def test_a_board_without_mig_has_no_geometry() -> None:
    assert find_gpu_model("l40s").mig is None


COUNTS = {
    "the five plain profiles of an A100": (
        "a100-40gb",
        "1g.5gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb",
        19,
    ),
    "the same five of a B200": ("b200-180gb", "1g.23gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb", 19),
    "with the double-memory 1g": (
        "a100-80gb",
        "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
        78,
    ),
    "the three plain profiles of an A30": ("a30-24gb", "1g.6gb 2g.12gb 4g.24gb", 5),
    "an RTX PRO 6000": ("rtx-pro-6000-96gb", "1g.24gb 2g.48gb 4g.96gb", 5),
}


@pytest.mark.parametrize(("name", "profiles", "count"), COUNTS.values(), ids=COUNTS.keys())
def test_the_number_of_maximal_layouts_is_the_published_one(
    name: str, profiles: str, count: int
) -> None:
    assert len(layouts(only(board(name), *profiles.split()))) == count


def test_an_a100_has_14_layouts_if_order_does_not_count() -> None:
    plain = only(board("a100-40gb"), "1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb")
    assert len({tuple(sorted(one.profile for one in layout)) for layout in layouts(plain)}) == 14


@pytest.mark.parametrize("name", BOARDS)
def test_every_layout_is_valid_maximal_and_within_the_board(name: str) -> None:
    geometry = board(name)
    everything = [
        MigInstance(profile=profile.name, start=start)
        for profile in geometry.profiles
        for start in profile.starts
    ]
    maximal = layouts(geometry)
    assert len(set(maximal)) == len(maximal)
    for layout in maximal:
        assert layout_fault(geometry, layout) is None
        assert not any(layout_fault(geometry, (*layout, one)) is None for one in everything)
        compute = sum(geometry[one.profile].compute_slices for one in layout)
        assert compute <= geometry.compute_slices


def test_the_slices_of_a_gpu_count_for_at_most_1106_milli() -> None:
    for geometry in GEOMETRIES:
        for layout in layouts(geometry):
            assert sum(slice_milli(geometry, one.profile) for one in layout) <= 1106


FAULTS = {
    "two instances may not overlap": (
        "3g.20gb@0 2g.10gb@2",
        "3g.20gb@0 and 2g.10gb@2 overlap on the memory axis",
    ),
    "the same instance twice overlaps itself": (
        "1g.5gb@1 1g.5gb@1",
        "1g.5gb@1 and 1g.5gb@1 overlap on the memory axis",
    ),
    "a 2g cannot start at the last slices": (
        "2g.10gb@6",
        "2g.10gb cannot start at memory slice 6; valid starts: 0, 2, 4",
    ),
    "only one instance can have the media engines": (
        "1g.5gb+me@0 1g.5gb+me@1",
        "2 of 1g.5gb+me on one GPU; at most 1 fit",
    ),
    "a profile of another board is unknown": (
        "3g.40gb@0",
        "this GPU has no 3g.40gb; it has 1g.5gb, 1g.5gb+me, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb, "
        "7g.40gb",
    ),
}


@pytest.mark.parametrize(("layout", "text"), FAULTS.values(), ids=FAULTS.keys())
def test_an_invalid_layout_has_a_reason(layout: str, text: str) -> None:
    assert layout_fault(board("a100-40gb"), parse_layout(layout)) == text


VALID = {
    "4g and 3g": "4g.20gb@0 3g.20gb@4",
    "two 3g": "3g.20gb@0 3g.20gb@4",
    "a mix in any order": "3g.20gb@4 1g.5gb@0 2g.10gb@2 1g.5gb@1",
    "an incomplete layout": "1g.5gb@6",
    "nothing": "",
}


@pytest.mark.parametrize("layout", VALID.values(), ids=VALID.keys())
def test_a_valid_layout_has_no_fault(layout: str) -> None:
    assert layout_fault(board("a100-40gb"), parse_layout(layout)) is None


@given(data=st.data())
def test_instances_are_valid_if_and_only_if_a_maximal_layout_contains_them(
    data: st.DataObject,
) -> None:
    geometry = data.draw(st.sampled_from(GEOMETRIES))
    everything = [
        MigInstance(profile=profile.name, start=start)
        for profile in geometry.profiles
        for start in profile.starts
    ]
    instances = tuple(data.draw(st.lists(st.sampled_from(everything), max_size=5)))
    is_contained = any(not Counter(instances) - Counter(layout) for layout in layouts(geometry))
    assert (layout_fault(geometry, instances) is None) == is_contained


def test_geometries_compare_by_value() -> None:
    a100 = board("a100-40gb")
    again = only(a100, *a100.profile_names)
    assert again == a100 and hash(again) == hash(a100)
    assert only(a100, "1g.5gb") != a100
