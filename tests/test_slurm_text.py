"""Output of Slurm's commands is parsed into values."""

from __future__ import annotations

import pytest

from bursar.model.units import DAY_MS, HOUR_MS, MINUTE_MS
from bursar.slurm_text import (
    BadSlurmText,
    expand_hosts,
    parse_duration_ms,
    parse_limit_usage,
    parse_memory_mib,
    parse_record,
    parse_table,
    parse_time_ms,
    parse_tres,
    write_duration,
    write_hosts,
)

PARTITION = (
    "PartitionName=training AllowGroups=ALL Nodes=node[1-6] JobDefaults=(null) "
    "TRES=cpu=256,mem=750G,gres/gpu:t4=16 TRESBillingWeights=CPU=0.0,GRES/gpu:t4=1.0"
)


def test_a_record_keeps_what_follows_the_first_equals_sign() -> None:
    found = parse_record(PARTITION)
    assert found["TRES"] == "cpu=256,mem=750G,gres/gpu:t4=16"
    assert found["TRESBillingWeights"] == "CPU=0.0,GRES/gpu:t4=1.0"
    assert found["Nodes"] == "node[1-6]"


def test_a_table_has_its_names_in_the_first_line() -> None:
    assert parse_table("Name|Priority\nnormal|0\n\ngold|9\n") == [
        {"Name": "normal", "Priority": "0"},
        {"Name": "gold", "Priority": "9"},
    ]
    assert parse_table("") == []


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("7-00:00:00", 7 * DAY_MS),
        ("01:30:00", 90 * MINUTE_MS),
        ("5:00", 5 * MINUTE_MS),
        ("30", 30 * MINUTE_MS),
        ("2-3", 2 * DAY_MS + 3 * HOUR_MS),
        ("UNLIMITED", None),
        ("Partition_Limit", None),
    ],
)
def test_durations(text: str, time_ms: int | None) -> None:
    assert parse_duration_ms(text) == time_ms


@pytest.mark.parametrize("time_ms", [MINUTE_MS, 90 * MINUTE_MS, 7 * DAY_MS, 3 * DAY_MS + HOUR_MS])
def test_a_written_duration_is_read_as_the_same(time_ms: int) -> None:
    assert parse_duration_ms(write_duration(time_ms)) == time_ms


def test_part_of_a_minute_is_rounded_up() -> None:
    assert write_duration(61_000) == "00:02:00"


def test_times_in_both_forms() -> None:
    assert parse_time_ms("2026-11-16T02:29:23") == parse_time_ms("1794796163") == 1_794_796_163_000
    assert parse_time_ms("Unknown") is None


def test_limits_with_what_is_held() -> None:
    text = "cpu=N(4),gres/gpu=16(12),gres/gpu:t4=N(12),billing=100(99)"
    assert parse_limit_usage(text) == {"gres/gpu": (16, 12), "billing": (100, 99)}


def test_amounts() -> None:
    assert parse_tres("billing=16,gres/gpu:a100=4") == {"billing": "16", "gres/gpu:a100": "4"}
    assert parse_memory_mib("62.50G") == 64_000
    assert parse_memory_mib("100M") == parse_memory_mib("100") == 100


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (parse_duration_ms, "soon"),
        (parse_time_ms, "yesterday"),
        (parse_memory_mib, "much"),
        (parse_tres, "cpu"),
    ],
)
def test_invalid_text_is_refused(read: object, text: str) -> None:
    assert callable(read)
    with pytest.raises(BadSlurmText, match=text):
        read(text)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("node1", "node2", "node3", "node7"), "node[1-3,7]"),
        (("node9", "node10"), "node[9-10]"),
        (("gpu01", "gpu02", "login"), "login,gpu[01-02]"),
        (("t4-1",), "t4-1"),
    ],
)
def test_hosts_are_written_as_slurm_reads_them(names: tuple[str, ...], text: str) -> None:
    assert write_hosts(names) == text
    assert sorted(expand_hosts(text)) == sorted(names)
