"""The event log: every type is read as it was written, and bad lines are reported."""

from __future__ import annotations

import io
import json
from dataclasses import is_dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bursar.core.state.fleet_state import FleetState
from bursar.model import event as ev
from bursar.model.errors import UserError
from bursar.model.event import Event
from bursar.model.fleet.fleet import Fleet
from bursar.model.jobs.job import GpuRequest, MigSlice, MpsShare, WholeGpus
from bursar.model.tenants.policy import Policies
from bursar.model.tenants.tenant import Tenant
from bursar.simulate.demo.demo import demonstration
from bursar.simulate.simulation import Simulation
from bursar.simulate.workload.event_log import (
    VERSION,
    VERSION_KEY,
    RecordedRun,
    read_events,
    read_run,
    write_events,
    write_run,
)
from tests.simulate.random_scenarios import random_scenario

EVENT_TYPES = get_args(Event)
requests = st.one_of(st.from_type(WholeGpus), st.from_type(MigSlice), st.from_type(MpsShare))
st.register_type_strategy(GpuRequest, requests)
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))


def from_log(text: str) -> list[Event]:
    return list(read_events(io.StringIO(text)))


def to_log(*events: Event) -> str:
    file = io.StringIO()
    assert write_events(events, file) == len(events)
    return file.getvalue()


def test_every_event_type_is_covered() -> None:
    """If the union lost members, the tests below would still pass."""
    classes = {
        value
        for name, value in vars(ev).items()
        if isinstance(value, type) and value.__module__ == ev.__name__ and is_dataclass(value)
        if not name.startswith("_")
    }
    assert set(EVENT_TYPES) == classes - {ev.FleetDeclared, ev.BillReceived}
    assert len(classes) >= 20


@pytest.mark.parametrize("kind", EVENT_TYPES, ids=lambda kind: kind.__name__)
def test_every_event_type_is_read_back(kind: type[Event]) -> None:
    @given(st.lists(st.from_type(kind), max_size=3))
    @settings(max_examples=25)
    def round_trip(events: list[Event]) -> None:
        text = to_log(*events)
        read = from_log(text)
        assert read == events
        assert to_log(*read) == text

    round_trip()


@given(st.from_type(Fleet), st.lists(st.from_type(Tenant), max_size=2), st.from_type(Policies))
@settings(max_examples=25)
def test_every_header_is_read_back(fleet: Fleet, tenants: list[Tenant], policies: Policies) -> None:
    run = RecordedRun(fleet=fleet, tenants=tuple(tenants), policies=policies, events=())
    with TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        with path.open("w", encoding="utf-8") as file:
            write_run(run, file)
        read = read_run(path)
        assert replace(read, events=tuple(read.events)) == run


@pytest.mark.parametrize(
    "scenario", [demonstration(7), random_scenario(5)], ids=["demo", "rough day"]
)
def test_a_run_is_rebuilt_from_its_log(tmp_path: Path, scenario: object) -> None:
    assert hasattr(scenario, "fleet") and hasattr(scenario, "tenants")
    simulation = Simulation(scenario)  # type: ignore[arg-type]
    events = [e for step in simulation.steps() for e in (*step.events, *step.committed)]
    run = RecordedRun(
        fleet=scenario.fleet, tenants=scenario.tenants, policies=Policies(), events=events
    )
    path = tmp_path / "events.jsonl"
    with path.open("w", encoding="utf-8") as file:
        assert write_run(run, file) == len(events)

    read = read_run(path)
    assert replace(read, events=list(read.events)) == run
    rebuilt = FleetState(read.fleet, read.tenants, read.policies)
    for event in read.events:
        rebuilt.apply(event)
    assert rebuilt.finished == simulation.state.finished
    assert sorted(rebuilt.jobs) == sorted(simulation.state.jobs)


def test_a_line_is_short_and_has_its_type() -> None:
    line = to_log(ev.NodeLost(at_ms=5, node="n1"))
    assert line == '{"type":"NodeLost","at_ms":5,"node":"n1"}\n'


def test_a_field_newer_than_the_log_gets_its_default() -> None:
    (seen,) = from_log('{"type":"ForeignUsageSeen","at_ms":5,"node":"n1"}\n')
    assert seen == ev.ForeignUsageSeen(at_ms=5, node="n1")


BAD_LINES = {
    "not JSON": ("{", "the last line is incomplete (Expecting"),
    "no type": ('{"at_ms":1}\n', "Object missing required field `type`"),
    "no mapping": ("[]\n", "Expected `object`, got `array`"),
    "an unknown type": (
        '{"type":"NodeLosd","at_ms":1,"node":"n"}\n',
        "'NodeLosd' is not an event type (Did you mean 'NodeLost'?)",
    ),
    "a type that is no text": ('{"type":[1]}\n', "Expected `str`"),
    "a bill": (
        '{"type":"BillReceived","at_ms":1,"pool":"p","flavor":"f","from_ms":0,"to_ms":1,'
        '"billed_micro_usd":1}\n',
        "BillReceived is not an event of a simulation",
    ),
    "a missing field": (
        '{"type":"NodeLost","at_ms":1,"nod":"n"}\n',
        "Object missing required field `node`",
    ),
    "a wrong type": (
        '{"type":"NodeLost","at_ms":"1","node":"n"}\n',
        "Expected `int`, got `str` - at `$.at_ms`",
    ),
    "true for a number": (
        '{"type":"NodeLost","at_ms":true,"node":"n"}\n',
        "Expected `int`, got `bool` - at `$.at_ms`",
    ),
    "a wrong value deep inside": (
        '{"type":"GpuPartitioned","at_ms":1,"node":"n","gpu":0,'
        '"layout":[{"profile":"1g.10gb","start":"x"}]}\n',
        "Expected `int`, got `str` - at `$.layout[0].start`",
    ),
    "not a number": (
        '{"type":"NodeLost","at_ms":NaN,"node":"n"}\n',
        "NaN is not a valid JSON number",
    ),
}


@pytest.mark.parametrize("mistake", sorted(BAD_LINES))
def test_a_bad_line_is_reported_with_file_and_line(mistake: str) -> None:
    line, reason = BAD_LINES[mistake]
    good = to_log(ev.NodeRestored(at_ms=5, node="n1"))
    events = read_events(io.StringIO(good + "\n" + line))
    assert next(events) == ev.NodeRestored(at_ms=5, node="n1")
    with pytest.raises(UserError) as caught:
        next(events)
    assert caught.value.problem.startswith(f"<events>:3: this line is not an event: {reason}")
    assert caught.value.code == "bad-event-line"


def test_bytes_that_are_not_utf_8_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\xff\xfe\n")
    with path.open(encoding="utf-8") as file, pytest.raises(UserError, match=r"log:1: .*UTF-8"):
        list(read_events(file))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "not-an-event-log"),
        ('{"type":"NodeLost","at_ms":1,"node":"n"}\n', "not-an-event-log"),
        (json.dumps({VERSION_KEY: 99}) + "\n", "event-log-version"),
        (json.dumps({VERSION_KEY: VERSION, "fleet": 5}) + "\n", "bad-event-line"),
        ("{\n", "bad-event-line"),
        ("\udcff\n", "bad-event-line"),
    ],
)
def test_a_file_that_is_not_a_log_is_refused(tmp_path: Path, text: str, code: str) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(UserError) as caught:
        read_run(path)
    assert caught.value.code == code


def test_a_missing_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        read_run(tmp_path / "none")
    assert caught.value.code == "no-event-log"
