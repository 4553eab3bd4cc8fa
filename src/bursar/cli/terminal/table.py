"""Lists on standard output: a table for users, JSON, YAML or CSV for programs.

Programs get the keys of the wire format, independent of the columns of the table.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from bursar.cli.arguments import CSV, JSON, WIDE, YAML
from bursar.cli.connection import ask
from bursar.cli.exit_codes import OK
from bursar.cli.terminal.safe_text import csv_cell, one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from bursar.client import Client

T = TypeVar("T")
Row = Mapping[str, Any]
UNBOUNDED: Final = 10_000
CLEAR: Final = "\x1b[H\x1b[2J\x1b[3J"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table. A ``whole`` column is never truncated: users copy ids from it."""

    heading: str
    cell: Callable[[Row], object]
    whole: bool = False
    right: bool = False
    only_wide: bool = False
    tone: Callable[[Row], str] | None = None


@dataclass(frozen=True, slots=True)
class TableSpec:
    """The columns of a table, and the keys that programs get, in order.

    ``keys`` may be the name of the wire type of a row.
    """

    columns: tuple[Column, ...]
    keys: tuple[str, ...] | str
    nothing: str = "nothing to show"

    def key_names(self) -> Sequence[str]:
        """The keys that programs get."""
        if not isinstance(self.keys, str):
            return self.keys
        from bursar.client import wire

        return tuple(getattr(wire, self.keys).__annotations__)


def show_list(
    parsed: argparse.Namespace, listing: TableSpec, fetch: Callable[[Client], Iterable[Row]]
) -> int:
    """Fetch and print rows up to ``--limit``, once or repeatedly until Ctrl-C."""

    def read_rows() -> list[Row]:
        return ask(parsed, lambda client: [*fetch(client)])[: parsed.limit]

    interval_seconds = getattr(parsed, "watch", None)
    return repeat(interval_seconds, read_rows, lambda rows: print_rows(parsed, listing, rows))


def repeat(interval_seconds: float | None, read: Callable[[], T], show: Callable[[T], None]) -> int:
    """Show a value once, or each time read again until Ctrl-C."""
    if interval_seconds is None:
        show(read())
        return OK
    try:
        while True:
            value = read()
            if sys.stdout.isatty():
                sys.stdout.write(CLEAR)
            show(value)
            sys.stdout.flush()
            time.sleep(interval_seconds)
    except KeyboardInterrupt:
        return OK


def print_rows(parsed: argparse.Namespace, listing: TableSpec, rows: Sequence[Row]) -> None:
    """Print rows in the requested format."""
    if parsed.output in (JSON, YAML):
        keys = listing.key_names()
        print_plain(parsed.output, [{key: row.get(key) for key in keys} for row in rows])
    elif parsed.output == CSV:
        _print_csv(listing.key_names(), rows)
    else:
        _print_table(parsed, listing, rows)


def print_plain(form: str, value: object) -> None:
    """Print one value for a program."""
    if form == YAML:
        import yaml

        sys.stdout.write(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))
    else:
        print(json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False))


def print_one(parsed: argparse.Namespace, value: Row, print_text: Callable[[], None]) -> None:
    """Print one value: as a whole for programs, by ``print_text`` for users."""
    if parsed.output in (JSON, YAML):
        print_plain(parsed.output, dict(value))
    elif parsed.output == CSV:
        _print_csv(tuple(value), [value])
    else:
        print_text()


def coloured(parsed: argparse.Namespace) -> bool:
    """Whether to print colours."""
    return sys.stdout.isatty() and not parsed.no_color and not os.environ.get("NO_COLOR")


def console_of(parsed: argparse.Namespace) -> Console:
    """The console for tables; its width is unlimited when output is not a terminal."""
    from rich.console import Console

    is_terminal = sys.stdout.isatty()
    return Console(
        width=None if is_terminal else UNBOUNDED,
        no_color=not coloured(parsed),
        color_system="auto" if coloured(parsed) else None,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
    )


def _print_table(parsed: argparse.Namespace, listing: TableSpec, rows: Sequence[Row]) -> None:
    if not rows:
        print(listing.nothing, file=sys.stderr)
        return
    console = console_of(parsed)
    with console.capture() as drawn:
        console.print(table_of(listing, rows, wide=parsed.output == WIDE))
    for line in drawn.get().splitlines():
        print(line.rstrip())


def table_of(listing: TableSpec, rows: Sequence[Row], *, wide: bool) -> Table:
    """Rows as a table of rich, without markup in the cells."""
    from rich.table import Table
    from rich.text import Text

    columns = [column for column in listing.columns if wide or not column.only_wide]
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    cells = [[one_line(_shown(column.cell(row))) for column in columns] for row in rows]
    for number, column in enumerate(columns):
        longest = max(len(line[number]) for line in cells)
        heading = column.heading
        if column.whole and column.right:
            longest = max(longest, len(heading))
            heading = heading.rjust(longest)
            for line in cells:
                line[number] = line[number].rjust(longest)
        table.add_column(
            heading,
            no_wrap=True,
            justify="right" if column.right else "left",
            overflow="ignore" if column.whole else "ellipsis",
            min_width=longest if column.whole else None,
        )
    for row, line in zip(rows, cells, strict=True):
        tones = [column.tone(row) if column.tone else "" for column in columns]
        table.add_row(*(Text(text, style=tone) for text, tone in zip(line, tones, strict=True)))
    return table


def _shown(value: object) -> object:
    return "-" if value is None or value == "" else value


def _print_csv(keys: Sequence[str], rows: Sequence[Row]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(keys)
    for row in rows:
        writer.writerow([_csv_value(row.get(key)) for key in keys])


def _csv_value(value: object) -> object:
    if isinstance(value, str):
        return csv_cell(value)
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=True)
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else value
