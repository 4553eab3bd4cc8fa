"""Spot notices without an agent: ``python -m bursar.sdk.notice --provider aws -- COMMAND ...``.

Runs the command and polls the metadata server of this machine for an interruption notice. When one appears,
it is reported to Bursar and the command gets SIGTERM, so that it can still save. For nodes whose notices
Bursar does not see: on Slurm, in a container, on another organisation's cluster.
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
from bursar.sdk.status_reports import FILE, StatusReporter, now_ms, stop_source

TIMEOUT_SECONDS = 2.0
POLL_SECONDS = 0.2
MAX_BYTES = 1 << 18
GCP_NOTICE_MS = 30_000


EndsAtMs = int | None
"""When the machine is taken away; None without a notice."""


def aws(address: str) -> EndsAtMs:
    """IMDSv2: a session token first; then 404 until there is a notice."""
    ttl = {"X-aws-ec2-metadata-token-ttl-seconds": "300"}
    status, token = _request(address, "PUT", "/latest/api/token", ttl)
    if status != 200:
        return None
    headers = {"X-aws-ec2-metadata-token": token.strip()}
    status, body = _request(address, "GET", "/latest/meta-data/spot/instance-action", headers)
    if status != 200:
        return None
    ends_at = datetime.fromisoformat(str(json.loads(body)["time"]))
    return round(ends_at.timestamp() * 1_000)


def gcp(address: str) -> EndsAtMs:
    """One value that becomes TRUE half a minute before the end."""
    path = "/computeMetadata/v1/instance/preempted"
    status, body = _request(address, "GET", path, {"Metadata-Flavor": "Google"})
    is_preempted = status == 200 and body.strip().upper() == "TRUE"
    return now_ms() + GCP_NOTICE_MS if is_preempted else None


def azure(address: str) -> EndsAtMs:
    """Scheduled events that end this machine; the response lists other machines' too."""
    headers = {"Metadata": "true"}
    name_path = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
    _, name = _request(address, "GET", name_path, headers)
    events_path = "/metadata/scheduledevents?api-version=2020-07-01"
    status, body = _request(address, "GET", events_path, headers)
    events = json.loads(body)["Events"] if status == 200 else []
    ends = [_end_ms(event) for event in events if _ends_machine(event, name.strip())]
    return min(ends, default=None)


def _ends_machine(event: Mapping[str, Any], name: str) -> bool:
    names = [str(one).casefold() for one in event.get("Resources") or ()]
    is_end = event.get("EventType") in ("Preempt", "Terminate", "Reboot", "Redeploy")
    return is_end and name.casefold() in names


def _end_ms(event: Mapping[str, Any]) -> int:
    text = str(event.get("NotBefore") or "")
    return round(parsedate_to_datetime(text).timestamp() * 1_000) if text else now_ms()


PROVIDERS: dict[str, tuple[Callable[[str], EndsAtMs], str]] = {
    "aws": (aws, "http://169.254.169.254"),
    "azure": (azure, "http://169.254.169.254"),
    "gcp": (gcp, "http://metadata.google.internal"),
}


def _request(address: str, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(
        parts.hostname or "", parts.port or 80, timeout=TIMEOUT_SECONDS
    )
    try:
        connection.request(method, path, headers=dict(headers))
        response = connection.getresponse()
        return response.status, response.read(MAX_BYTES).decode("utf-8", errors="replace")
    finally:
        connection.close()


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code of the command."""
    options = _parse(arguments)
    read_notice, default_address = PROVIDERS[options.provider]
    address = options.address or default_address
    reporter = StatusReporter(os.environ.get(FILE))
    stop = StopSignals(STOP_SIGNALS)
    try:
        child = subprocess.Popen(options.command, process_group=0)
    except OSError as problem:
        _log(f"{options.command[0]} cannot be run: {problem.strerror}")
        return 127
    stop.on_stop(lambda: reporter.stopping(stop_source(), stop.requested_at_ms, stop.ends_at_ms))
    stop.on_stop(lambda: child.send_signal(stop.signum))
    stop.listen()
    try:
        next_poll, has_notice = 0.0, False
        while child.poll() is None:
            if not has_notice and not stop.is_requested and time.monotonic() >= next_poll:
                next_poll = time.monotonic() + options.every
                ends_at_ms = _poll(read_notice, address)
                if ends_at_ms is not None:
                    has_notice = True
                    at_ms = now_ms()
                    reporter.stopping(options.provider, at_ms, max(at_ms, ends_at_ms))
                    _log(f"{options.provider} will take this machine away; stopping the command")
                    child.send_signal(signal.SIGTERM)
            time.sleep(POLL_SECONDS)
    finally:
        stop.close()
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _poll(read_notice: Callable[[str], EndsAtMs], address: str) -> EndsAtMs:
    """The notice, if any; an error or an unknown response counts as none."""
    try:
        return read_notice(address)
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as problem:
        _log(f"{address} cannot be read, will retry: {problem}")
        return None


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bursar.sdk.notice", description=__doc__)
    parser.add_argument("--provider", required=True, choices=sorted(PROVIDERS))
    parser.add_argument("--address", help="of the metadata server, if not the provider's default")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between polls")
    parser.add_argument("command", nargs="+", help="after --: the command to run")
    return parser.parse_args(arguments)


def _log(text: str) -> None:
    sys.stderr.write(f"bursar: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
