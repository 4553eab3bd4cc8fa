"""Checkpoints without code: ``python -m bursar.sdk.watch --directory D --to URL [-- COMMAND ...]``.

Restores the directory at the start, and copies it to the URL while it changes. With a command it runs
that, hands it the signals that ask to stop, sends what it left, and ends as it ended. Without one it is a
sidecar, which sends once more and ends when it gets SIGTERM.
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

from bursar.sdk.directory_copy import DirectoryScan, Mirror, settled_since
from bursar.sdk.errors import CheckpointProblem
from bursar.sdk.object_store import target_at
from bursar.sdk.signals import PREEMPTED_EXIT, STOP_SIGNALS, StopSignals
from bursar.sdk.status_reports import FILE, StatusReporter, who_stops_jobs

LOOK_SECONDS = 0.2


class WatchPace(NamedTuple):
    """How often to sync, and how long a file must be left alone to be whole."""

    every_seconds: float
    quiet_seconds: float


def main(words: Sequence[str]) -> int:
    """0, or what the command gave; 64 for a bad argument."""
    options = _read(words)
    try:
        mirror = Mirror(Path(options.directory), target_at(options.to), options.keep)
        return _run(options, mirror)
    except CheckpointProblem as problem:
        _say(str(problem))
        return 64


def _run(options: argparse.Namespace, mirror: Mirror) -> int:
    teller = StatusReporter(os.environ.get(FILE))
    Path(options.directory).mkdir(parents=True, exist_ok=True)
    _restore(mirror, teller)
    if options.restore_only:
        return 0
    stop = StopSignals(STOP_SIGNALS)
    stop.on_stop(lambda: teller.stopping(who_stops_jobs(), stop.asked_at_ms, stop.ends_at_ms))
    stop.listen()
    try:
        watch = DirectoryWatch(mirror, teller, WatchPace(options.every, options.quiet))
        if not options.command:
            watch.until_stopped(stop)
            return 0
        return watch.around(options.command, stop)
    finally:
        stop.close()


def _restore(mirror: Mirror, teller: StatusReporter) -> None:
    begun = time.monotonic()
    files = mirror.restore()
    for skipped in mirror.skipped:
        _say(f"skipped {skipped}")
    if files is None:
        _say("nothing to restore; starting fresh")
    else:
        _say(f"restored {files} files")
        teller.resumed(None, 0, time.monotonic() - begun)


class DirectoryWatch:
    """Looks at the directory at a pace, and sends what has settled."""

    def __init__(self, mirror: Mirror, teller: StatusReporter, pace: WatchPace) -> None:
        self._mirror = mirror
        self._teller = teller
        self._pace = pace
        self._last: dict[str, DirectoryScan] = {}
        self._next = 0.0

    def until_stopped(self, stop: StopSignals) -> None:
        while not stop.asked:
            self._look_if_due()
            time.sleep(LOOK_SECONDS)
        self._look(self._pace.quiet_seconds)

    def around(self, command: list[str], stop: StopSignals) -> int:
        """Run the command, and end as it does."""
        try:
            # In a group of its own, so that a signal to ours reaches it once, from us.
            child = subprocess.Popen(command, process_group=0)
        except OSError as problem:
            _say(f"{command[0]} cannot be run: {problem.strerror}")
            return 127
        stop.on_stop(lambda: child.send_signal(stop.signum))
        try:
            while child.poll() is None:
                self._look_if_due()
                time.sleep(LOOK_SECONDS)
        except KeyboardInterrupt:
            child.send_signal(signal.SIGINT)
            child.wait()
        code = child.returncode if child.returncode >= 0 else 128 - child.returncode
        # What a command was writing when it was killed is not whole, however long one waits now.
        clean = code in (0, PREEMPTED_EXIT)
        self._look(0.0 if clean else self._pace.quiet_seconds, ended=True)
        return PREEMPTED_EXIT if stop.asked and code in (0, 128 + signal.SIGTERM) else code

    def _look_if_due(self) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self._pace.every_seconds
            self._look(self._pace.quiet_seconds)

    def _look(self, quiet_seconds: float, *, ended: bool = False) -> None:
        begun = time.monotonic()
        present = self._mirror.look()
        before = present if ended else self._last
        self._last = present
        try:
            synced = self._mirror.sync(settled_since(before, present, quiet_seconds), present)
        except OSError as problem:
            _say(f"not synced, the next look tries again: {problem}")
            return
        if synced is not None:
            seconds = time.monotonic() - begun
            self._teller.saved(None, synced.at_ms, synced.sent_bytes, seconds)
            _say(
                f"synced {synced.files} files, sent {synced.sent_bytes:,} bytes in {seconds:.1f} s"
            )


def _read(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bursar.sdk.watch", description=__doc__)
    parser.add_argument("--directory", required=True, help="where the job writes its checkpoints")
    parser.add_argument("--to", required=True, help="a folder, or a URL such as s3://bucket/run")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two looks")
    parser.add_argument(
        "--quiet", type=float, default=5.0, help="seconds without a change that make a file whole"
    )
    parser.add_argument("--keep", type=int, default=3, help="snapshots that are kept")
    parser.add_argument("--restore-only", action="store_true", help="restore, and end")
    parser.add_argument("command", nargs="*", help="after --: what to run")
    options = parser.parse_args(words)
    if options.keep < 1:
        parser.error("--keep must be at least 1")
    return options


def _say(text: str) -> None:
    sys.stderr.write(f"bursar: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
