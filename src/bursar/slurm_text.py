"""Parses and writes what Slurm's commands print: tables, records, amounts, times and lists of hosts.

The input is the output meant for programs: ``-P`` of sacctmgr, sacct and sshare, ``-h -o`` of squeue and
sprio, ``-o`` of scontrol; and the values of sbatch's options, which have the same form. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from bursar.model.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

NO_VALUE = frozenset({"", "(null)", "N/A", "None", "NONE", "Unknown", "UNLIMITED", "INVALID"})
"""How Slurm writes that there is no value."""
_NO_LIMIT = NO_VALUE | {"INFINITE", "Partition_Limit"}
_NO_HOSTS = NO_VALUE | {"None assigned"}

_RECORD_KEY = re.compile(r"(?:^|\s)([A-Za-z][\w/:]*)=")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+)(?::(\d+))?(\.\d+)?)?")
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGTP]?)B?[CN]?", re.IGNORECASE)
_UNITS_MIB = {"K": 1 / 1_024, "": 1, "M": 1, "G": 1_024, "T": 1_024**2, "P": 1_024**3}
_LIMIT_USAGE = re.compile(r"([\w/:.-]+)=(\d+(?:\.\d+)?)\((\d+(?:\.\d+)?)\)")
_HOST_RANGE = re.compile(r"\[([\d,-]+)\]")


class BadSlurmText(ValueError):
    """A text that does not have the expected form; the caller knows where it was."""


# -- tables and records --------------------------------------------------------------------------------


def parse_table(text: str) -> list[dict[str, str]]:
    """Rows of a table with ``|`` between its columns, by the names in its first line."""
    lines = text.splitlines()
    if not lines:
        return []
    names = lines[0].split("|")
    return [dict(zip(names, line.split("|"), strict=False)) for line in lines[1:] if line]


def parse_record(line: str) -> dict[str, str]:
    """One line of ``scontrol -o``: ``key=value`` repeated; values may contain spaces and ``=``.

    The first value of a key counts: later ones can be part of a user's text, such as a comment.
    """
    values: dict[str, str] = {}
    keys = list(_RECORD_KEY.finditer(line))
    for key, following in zip(keys, [*keys[1:], None], strict=True):
        end = following.start() if following else len(line)
        values.setdefault(key[1], line[key.end() : end].strip())
    return values


def parse_records(text: str) -> list[dict[str, str]]:
    """All lines of ``scontrol -o``."""
    return [parse_record(line) for line in text.splitlines() if "=" in line]


def value_or_empty(value: str | None) -> str:
    """The value, or "" where Slurm prints that there is none."""
    return "" if value is None or value in NO_VALUE else value


def split_list(text: str) -> Iterator[str]:
    """Items of a list, split at commas that are not in brackets."""
    depth, item = 0, ""
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            yield item
            item = ""
        else:
            item += letter
    if item:
        yield item


# -- amounts -------------------------------------------------------------------------------------------


def parse_tres(text: str) -> dict[str, str]:
    """Trackable resources by name: ``billing=8,cpu=64,gres/gpu:a100=8``."""
    amounts = {}
    for item in filter(None, text.split(",")):
        name, separator, amount = item.partition("=")
        if not separator:
            raise BadSlurmText(f"{item!r} is not name=amount")
        amounts[name] = amount
    return amounts


def write_tres(amounts: Mapping[str, int]) -> str:
    """Trackable resources in order of name."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def parse_limit_usage(text: str) -> dict[str, tuple[float, float]]:
    """Limits and their usage by name: ``gres/gpu=16(12)`` is (16, 12)."""
    return {name: (float(most), float(used)) for name, most, used in _LIMIT_USAGE.findall(text)}


def parse_memory_mib(text: str) -> float:
    """``62.50G`` or ``100M``; a bare number is MiB. sacct adds ``c`` (per CPU) or ``n`` (per node)."""
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise BadSlurmText(f"{text!r} is not an amount of memory such as 512G")
    return float(match[1]) * _UNITS_MIB[match[2].upper()]


# -- times ---------------------------------------------------------------------------------------------


def parse_duration_ms(text: str) -> int | None:
    """``7-00:00:00``, ``01:00:00``, ``5:00``, ``2-3`` or minutes; None where there is no limit."""
    if text in _NO_LIMIT:
        return None
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise BadSlurmText(f"{text!r} is not a duration such as 1-02:03:04")
    days, *clock, fraction = match.groups()
    numbers = [int(number) for number in clock if number is not None]
    if days is not None:
        numbers += [0] * (3 - len(numbers))
    hours, minutes, seconds = [0] * (3 - len(numbers)) + numbers
    if len(numbers) == 1:
        minutes, seconds = numbers[0], 0
    duration_ms = int(days or 0) * DAY_MS + hours * HOUR_MS + minutes * MINUTE_MS
    return duration_ms + seconds * SECOND_MS + round(float(fraction or 0) * SECOND_MS)


def write_duration(duration_ms: int) -> str:
    """A duration as Slurm's options take it, rounded up to minutes: ``1-02:30:00``."""
    minutes = max(1, -(-duration_ms // MINUTE_MS))
    days, minutes = divmod(minutes, 24 * 60)
    hours, minutes = divmod(minutes, 60)
    clock = f"{hours:02}:{minutes:02}:00"
    return f"{days}-{clock}" if days else clock


def parse_time_ms(text: str) -> int | None:
    """``2026-11-16T02:29:23`` (UTC) or seconds since the epoch; None where it is unknown."""
    if text in NO_VALUE:
        return None
    if text.isascii() and text.isdigit():
        return int(text) * SECOND_MS
    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND_MS
    except ValueError:
        raise BadSlurmText(f"{text!r} is not a time") from None


# -- hosts ---------------------------------------------------------------------------------------------


def expand_hosts(text: str) -> tuple[str, ...]:
    """The names of a list of hosts such as ``t4-[1-3,07-09],login``, in the order of the list."""
    if text in _NO_HOSTS:
        return ()
    return tuple(name for item in split_list(text) for name in _expand_ranges(item))


def _expand_ranges(item: str) -> Iterator[str]:
    ranges = _HOST_RANGE.search(item)
    if ranges is None:
        yield item
        return
    before, after = item[: ranges.start()], item[ranges.end() :]
    for span in ranges[1].split(","):
        first, _, last = span.partition("-")
        for number in range(int(first), int(last or first) + 1):
            for rest in _expand_ranges(after):
                yield f"{before}{number:0{len(first)}}{rest}"


def write_hosts(names: Iterable[str]) -> str:
    """A list of hosts, with consecutive numbers as a range: ``node[1-3,7]``."""
    items: list[str] = []
    numbered: dict[tuple[str, int], list[int]] = {}
    for name in sorted(names):
        match = re.fullmatch(r"(.*?)(\d+)", name)
        if match is None:
            items.append(name)
            continue
        width = len(match[2]) if match[2].startswith("0") and len(match[2]) > 1 else 0
        numbered.setdefault((match[1], width), []).append(int(match[2]))
    for (stem, width), numbers in sorted(numbered.items()):
        ranges = _write_ranges(sorted(numbers), width)
        is_single = len(ranges) == 1 and "-" not in ranges[0]
        items.append(f"{stem}{ranges[0]}" if is_single else f"{stem}[{','.join(ranges)}]")
    return ",".join(items)


def _write_ranges(numbers: list[int], width: int) -> list[str]:
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return [
        f"{first:0{width}}" if first == last else f"{first:0{width}}-{last:0{width}}"
        for first, last in ranges
    ]
