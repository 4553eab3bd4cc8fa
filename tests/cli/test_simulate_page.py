"""``docs/simulate.md`` explains every option and value of the commands."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from bursar.cli.main import build_parser
from bursar.simulate.named_policies import (
    BACKFILLS,
    FLEET,
    KEYS,
    ORDERS,
    PLACEMENTS,
    PREEMPTIONS,
    RunTimeSource,
)
from bursar.simulate.runs.fault_options import FAULTS
from bursar.simulate.runs.fleet_overrides import CHANGES
from bursar.simulate.runs.workload_source import SETTINGS
from bursar.simulate.workload.generate.presets import PRESETS
from tests.cli.commands import ROOT

PAGE = (ROOT / "docs" / "simulate.md").read_text(encoding="utf-8")
STUDIES = ("simulate", "compare", "whatif", "trace")
COMMON_OPTIONS = {"-h", "--help"}


def test_every_policy_name_is_explained() -> None:
    names = (*ORDERS, FLEET, *PLACEMENTS, *BACKFILLS, *PREEMPTIONS, *RunTimeSource, *KEYS)
    assert [name for name in names if f"`{name}`" not in PAGE and f"`{name}=" not in PAGE] == []


def test_every_fault_workload_setting_and_change_is_explained() -> None:
    assert [one for one in FAULTS if f"`{one}`" not in PAGE and f"`{one}=" not in PAGE] == []
    assert [one for one in (*PRESETS, *SETTINGS) if f"`{one}`" not in PAGE] == []
    assert [one for one in CHANGES if f"`{one}." not in PAGE] == []


def test_every_option_is_explained() -> None:
    options = {option for command in STUDIES for option in options_of(command)} - COMMON_OPTIONS
    assert sorted(one for one in options if one.startswith("--") and one not in PAGE) == [
        "--output"
    ], "the page uses the short form -o"


def options_of(command: str) -> Iterator[str]:
    (commands,) = (
        action
        for action in build_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    parsers = [commands.choices[command]]
    while parsers:
        for action in parsers.pop()._actions:
            if isinstance(action, argparse._SubParsersAction):
                parsers += action.choices.values()
            yield from action.option_strings
