"""Spot notices without an agent: ``python -m bursar.sdk.notice --provider aws -- COMMAND ...``.

Runs the command and asks the metadata server of this machine every few seconds whether it will be taken
away. When it will, Bursar is told and the command gets SIGTERM, while there is still time to save. For nodes
of which nobody else hears: on Slurm, in a container, on a cluster of somebody else.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from bursar.sdk.signals import STOP_SIGNALS, StopSignals
from bursar.sdk.status_reports import FILE, StatusReporter, now_ms, who_stops_jobs

TIMEOUT_SECONDS = 2.0
LOOK_SECONDS = 0.2
MOST_BYTES = 1 << 18
GCP_NOTICE_MS = 30_000
NOTHING: Mapping[str, str] = {}

EndsAtMs = int | None
"""When the machine goes; None while nobody takes it away."""


def aws(address: str) -> EndsAtMs:
    """IMDSv2: a token first, then 404 until there is an action."""
    life = {"X-aws-ec2-metadata-token-ttl-seconds": "300"}
    status, token = _ask(address, "PUT", "/latest/api/token", life)
    if status != 200:
        return None
    asking = {"X-aws-ec2-metadata-token": token.strip()}
    status, body = _ask(address, "GET", "/latest/meta-data/spot/instance-action", asking)
    if status != 200:
        return None
    moment = datetime.fromisoformat(str(json.loads(body)["time"]))
    return round(moment.timestamp() * 1_000)


def gcp(address: str) -> EndsAtMs:
    """One value that turns to TRUE, half a minute before the end."""
    path = "/computeMetadata/v1/instance/preempted"
    status, body = _ask(address, "GET", path, {"Metadata-Flavor": "Google"})
    taken = status == 200 and body.strip().upper() == "TRUE"
    return now_ms() + GCP_NOTICE_MS if taken else None


def azure(address: str) -> EndsAtMs:
    """Scheduled events that end this machine; those of its neighbours come along."""
    asking = {"Metadata": "true"}
    name_path = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
    _, name = _ask(address, "GET", name_path, asking)
    events_path = "/metadata/scheduledevents?api-version=2020-07-01"
    status, body = _ask(address, "GET", events_path, asking)
    listed = json.loads(body)["Events"] if status == 200 else []
    ends = [_end_of(event) for event in listed if _is_ours(event, name.strip())]
    return min(ends, default=None)


def _is_ours(event: Mapping[str, Any], name: str) -> bool:
    names = [str(one).casefold() for one in event.get("Resources") or ()]
    ends_it = event.get("EventType") in ("Preempt", "Terminate", "Reboot", "Redeploy")
    return ends_it and name.casefold() in names


def _end_of(event: Mapping[str, Any]) -> int:
    text = str(event.get("NotBefore") or "")
    return round(parsedate_to_datetime(text).timestamp() * 1_000) if text else now_ms()


PROVIDERS: dict[str, tuple[Callable[[str], EndsAtMs], str]] = {
    "aws": (aws, "http://169.254.169.254"),
    "azure": (azure, "http://169.254.169.254"),
    "gcp": (gcp, "http://metadata.google.internal"),
}


def _ask(address: str, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
    parts = urlsplit(address)
    line = http.client.HTTPConnection(
        parts.hostname or "", parts.port or 80, timeout=TIMEOUT_SECONDS
    )
    try:
        line.request(method, path, headers=dict(headers))
        reply = line.getresponse()
        return reply.status, reply.read(MOST_BYTES).decode("utf-8", errors="replace")
    finally:
        line.close()


def main(words: Sequence[str]) -> int:
    """What the command gave."""
    options = _read(words)
    look, usual = PROVIDERS[options.provider]
    address = options.address or usual
    teller = StatusReporter(os.environ.get(FILE))
    stop = StopSignals(STOP_SIGNALS)
    try:
        child = subprocess.Popen(options.command, process_group=0)
    except OSError as problem:
        _say(f"{options.command[0]} cannot be run: {problem.strerror}")
        return 127
    stop.on_stop(lambda: teller.stopping(who_stops_jobs(), stop.asked_at_ms, stop.ends_at_ms))
    stop.on_stop(lambda: child.send_signal(stop.signum))
    stop.listen()
    try:
        next_look, told = 0.0, False
        while child.poll() is None:
            if not told and not stop.asked and time.monotonic() >= next_look:
                next_look = time.monotonic() + options.every
                ends_at_ms = _look(look, address)
                if ends_at_ms is not None:
                    told = True
                    at_ms = now_ms()
                    teller.stopping(options.provider, at_ms, max(at_ms, ends_at_ms))
                    _say(f"{options.provider} takes this machine away; the command is told to stop")
                    child.send_signal(signal.SIGTERM)
            time.sleep(LOOK_SECONDS)
    finally:
        stop.close()
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _look(look: Callable[[str], EndsAtMs], address: str) -> EndsAtMs:
    """A server that does not answer, or not in this way, has announced nothing."""
    try:
        return look(address)
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as problem:
        _say(f"{address} could not be asked, the next look tries again: {problem}")
        return None


def _read(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bursar.sdk.notice", description=__doc__)
    parser.add_argument("--provider", required=True, choices=sorted(PROVIDERS))
    parser.add_argument("--address", help="of the metadata server, when it is not the usual one")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two looks")
    parser.add_argument("command", nargs="+", help="after --: what to run")
    return parser.parse_args(words)


def _say(text: str) -> None:
    sys.stderr.write(f"bursar: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
