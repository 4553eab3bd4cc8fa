"""Checkpoints without code: ``python -m bursar.sdk.watch --directory D --to URL [-- COMMAND ...]``.

Restores the directory at the start, and uploads it to the URL while it changes. With a command, it runs
the command, forwards stop signals, uploads the last files, and exits with the command's code. Without one
it is a sidecar, which syncs once more and exits on SIGTERM.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bursar.sdk.directory_copy import FileState, Mirror, settled_since
from bursar.sdk.errors import CheckpointProblem
from bursar.sdk.object_store import open_object_store
from bursar.sdk.signals import PREEMPTED_EXIT, STOP_SIGNALS, StopSignals
from bursar.sdk.status_reports import FILE, StatusReporter, stop_source

POLL_SECONDS = 0.2


class WatchPace(NamedTuple):
    """How often to sync, and after how long without changes a file is complete."""

    every_seconds: float
    quiet_seconds: float


def main(arguments: Sequence[str]) -> int:
    """Returns 0 or the exit code of the command; 64 for a bad argument."""
    options = _parse(arguments)
    try:
        mirror = Mirror(Path(options.directory), open_object_store(options.to), options.keep)
        return _run(options, mirror)
    except CheckpointProblem as problem:
        _log(str(problem))
        return 64


def _run(options: argparse.Namespace, mirror: Mirror) -> int:
    reporter = StatusReporter(os.environ.get(FILE))
    Path(options.directory).mkdir(parents=True, exist_ok=True)
    _restore(mirror, reporter)
    if options.restore_only:
        return 0
    stop = StopSignals(STOP_SIGNALS)
    stop.on_stop(lambda: reporter.stopping(stop_source(), stop.requested_at_ms, stop.ends_at_ms))
    stop.listen()
    try:
        watch = DirectoryWatch(mirror, reporter, WatchPace(options.every, options.quiet))
        if not options.command:
            watch.run_until_stopped(stop)
            return 0
        return watch.run_command(options.command, stop)
    finally:
        stop.close()


def _restore(mirror: Mirror, reporter: StatusReporter) -> None:
    started_at = time.monotonic()
    files = mirror.restore()
    for skipped in mirror.skipped:
        _log(f"skipped {skipped}")
    if files is None:
        _log("nothing to restore; starting from scratch")
    else:
        _log(f"restored {files} files")
        reporter.resumed(None, 0, time.monotonic() - started_at)


class DirectoryWatch:
    """Scans the directory at intervals, and uploads settled files."""

    def __init__(self, mirror: Mirror, reporter: StatusReporter, pace: WatchPace) -> None:
        self._mirror = mirror
        self._reporter = reporter
        self._pace = pace
        self._last: dict[str, FileState] = {}
        self._next = 0.0

    def run_until_stopped(self, stop: StopSignals) -> None:
        while not stop.is_requested:
            self._sync_if_due()
            time.sleep(POLL_SECONDS)
        self._sync(self._pace.quiet_seconds)

    def run_command(self, command: list[str], stop: StopSignals) -> int:
        """Run the command; returns its exit code."""
        try:
            # In its own process group, so that it gets each signal once, from us.
            child = subprocess.Popen(command, process_group=0)
        except OSError as problem:
            _log(f"{command[0]} cannot be run: {problem.strerror}")
            return 127
        stop.on_stop(lambda: child.send_signal(stop.signum))
        try:
            while child.poll() is None:
                self._sync_if_due()
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            child.send_signal(signal.SIGINT)
            child.wait()
        code = child.returncode if child.returncode >= 0 else 128 - child.returncode
        # A file that a killed command was writing stays incomplete, however long we wait.
        is_clean = code in (0, PREEMPTED_EXIT)
        self._sync(0.0 if is_clean else self._pace.quiet_seconds, ended=True)
        return PREEMPTED_EXIT if stop.is_requested and code in (0, 128 + signal.SIGTERM) else code

    def _sync_if_due(self) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self._pace.every_seconds
            self._sync(self._pace.quiet_seconds)

    def _sync(self, quiet_seconds: float, *, ended: bool = False) -> None:
        started_at = time.monotonic()
        present = self._mirror.scan()
        before = present if ended else self._last
        self._last = present
        try:
            synced = self._mirror.sync(settled_since(before, present, quiet_seconds), present)
        except OSError as problem:
            _log(f"sync failed, will retry: {problem}")
            return
        if synced is not None:
            seconds = time.monotonic() - started_at
            self._reporter.saved(None, synced.at_ms, synced.uploaded_bytes, seconds)
            _log(
                f"synced {synced.files} files, uploaded {synced.uploaded_bytes:,} bytes "
                f"in {seconds:.1f} s"
            )


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bursar.sdk.watch", description=__doc__)
    parser.add_argument("--directory", required=True, help="where the job writes its checkpoints")
    parser.add_argument("--to", required=True, help="a folder, or a URL such as s3://bucket/run")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between syncs")
    parser.add_argument(
        "--quiet", type=float, default=5.0, help="seconds without changes until a file is complete"
    )
    parser.add_argument("--keep", type=int, default=3, help="number of snapshots to keep")
    parser.add_argument("--restore-only", action="store_true", help="restore, then exit")
    parser.add_argument("command", nargs="*", help="after --: the command to run")
    options = parser.parse_args(arguments)
    if options.keep < 1:
        parser.error("--keep must be at least 1")
    return options


def _log(text: str) -> None:
    sys.stderr.write(f"bursar: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
