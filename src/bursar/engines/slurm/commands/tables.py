"""What Slurm's commands print, as values: tables, records, amounts, lists of hosts, times.

All of them are read from the forms meant for programs: ``-P`` of sacctmgr, sacct and sshare, ``-h -o`` of
squeue and sprio, ``-o`` of scontrol.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from bursar.model.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

NOTHING = frozenset({"", "(null)", "N/A", "None", "NONE", "Unknown", "UNLIMITED", "INVALID"})
"""How Slurm says that there is no value."""

_RECORD_KEY = re.compile(r"(?:^|\s)([A-Za-z][\w/:]*)=")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?(?:\.\d+)?")
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)")
_UNITS_MIB = {"K": 1 / 1_024, "": 1, "M": 1, "G": 1_024, "T": 1_024**2, "P": 1_024**3}
_HELD = re.compile(r"([\w/:.-]+)=(\d+(?:\.\d+)?)\((\d+(?:\.\d+)?)\)")


class UnexpectedOutput(ValueError):
    """A command printed something that we do not understand; the caller knows which row it was."""


def table(text: str) -> list[dict[str, str]]:
    """The rows of a table with ``|`` between its columns, by the names in its first line."""
    lines = text.splitlines()
    if not lines:
        return []
    names = lines[0].split("|")
    return [dict(zip(names, line.split("|"), strict=False)) for line in lines[1:] if line]


def record(line: str) -> dict[str, str]:
    """One line of ``scontrol -o``: ``key=value`` again and again; values may hold spaces and ``=``."""
    found: dict[str, str] = {}
    keys = list(_RECORD_KEY.finditer(line))
    for key, following in zip(keys, [*keys[1:], None], strict=True):
        end = following.start() if following else len(line)
        found.setdefault(key[1], line[key.end() : end].strip())
    return found


def records(text: str) -> list[dict[str, str]]:
    """Every line of ``scontrol -o``."""
    return [record(line) for line in text.splitlines() if "=" in line]


def said(value: str | None) -> str:
    """The value, or nothing where Slurm says that there is none."""
    return "" if value is None or value in NOTHING else value


def tres(text: str) -> dict[str, str]:
    """``billing=8,cpu=64,gres/gpu:a100=8`` by name."""
    found = {}
    for part in filter(None, text.split(",")):
        name, mark, amount = part.partition("=")
        if not mark:
            raise UnexpectedOutput(f"{part!r} is not name=amount")
        found[name] = amount
    return found


def write_tres(amounts: Mapping[str, int]) -> str:
    """The way back, in order of name."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def limits_held(text: str) -> dict[str, tuple[float, float]]:
    """Limits that are set, with what is held of them: ``gres/gpu=16(12)`` is (16, 12)."""
    return {name: (float(most), float(held)) for name, most, held in _HELD.findall(text)}


def memory_mib(text: str) -> int:
    """``62.50G`` or ``100M``; a bare number is MiB."""
    parts = _MEMORY.fullmatch(text.rstrip("cn"))
    if parts is None:
        raise UnexpectedOutput(f"{text!r} is not an amount of memory")
    return round(float(parts[1]) * _UNITS_MIB[parts[2]])


def duration_ms(text: str) -> int | None:
    """``7-00:00:00``, ``01:00:00``, ``5:00`` or ``2-3``; None where there is no limit."""
    if text in NOTHING or text == "Partition_Limit":
        return None
    parts = _CLOCK.fullmatch(text)
    if parts is None:
        raise UnexpectedOutput(f"{text!r} is not a duration")
    days, *rest = parts.groups()
    numbers = [int(one) for one in rest if one is not None]
    if days is not None:
        numbers += [0] * (3 - len(numbers))
    hours, minutes, seconds = [0] * (3 - len(numbers)) + numbers
    if len(numbers) == 1:
        minutes, seconds = numbers[0], 0
    whole_ms = hours * HOUR_MS + minutes * MINUTE_MS + seconds * SECOND_MS
    return int(days or 0) * DAY_MS + whole_ms


def write_duration_minutes(time_ms: int) -> str:
    """Minutes as Slurm's options take them, rounded up: ``1-02:30:00``."""
    minutes = max(1, -(-time_ms // MINUTE_MS))
    days, minutes = divmod(minutes, 24 * 60)
    hours, minutes = divmod(minutes, 60)
    clock = f"{hours:02}:{minutes:02}:00"
    return f"{days}-{clock}" if days else clock


def moment_ms(text: str) -> int | None:
    """``2026-11-16T02:29:23`` (UTC) or seconds since the epoch; None where it is not known."""
    if text in NOTHING:
        return None
    if text.isascii() and text.isdigit():
        return int(text) * SECOND_MS
    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND_MS
    except ValueError:
        raise UnexpectedOutput(f"{text!r} is not a time") from None


# -- hosts -------------------------------------------------------------------------------------------


def write_hosts(names: Iterable[str]) -> str:
    """A list of hosts, numbers in a row written as a span: ``node[1-3,7]``."""
    plain: list[str] = []
    numbered: dict[tuple[str, int], list[int]] = {}
    for name in sorted(names):
        parts = re.fullmatch(r"(.*?)(\d+)", name)
        if parts is None:
            plain.append(name)
            continue
        padded = len(parts[2]) if parts[2].startswith("0") and len(parts[2]) > 1 else 0
        numbered.setdefault((parts[1], padded), []).append(int(parts[2]))
    for (stem, width), numbers in sorted(numbered.items()):
        spans = _spans(sorted(numbers), width)
        lone = len(spans) == 1 and "-" not in spans[0]
        plain.append(f"{stem}{spans[0]}" if lone else f"{stem}[{','.join(spans)}]")
    return ",".join(plain)


def _spans(numbers: list[int], width: int) -> list[str]:
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return [
        f"{first:0{width}}" if first == last else f"{first:0{width}}-{last:0{width}}"
        for first, last in spans
    ]
