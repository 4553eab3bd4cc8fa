"""The server process: its address file, the addresses it may bind, and its shutdown."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from bursar.api.server import (
    SERVER_FILE,
    address_of,
    open_socket,
    remove_server_file,
    write_server_file,
)
from bursar.model.errors import UserError
from tests.api.http_client import TIMEOUT_SECONDS, HttpClient
from tests.children import with_ctrl_c
from tests.tidy.source import ROOT

PROGRAM = """
    import sys
    from pathlib import Path
    from bursar.api.http.request import ApiSettings
    from bursar.api.server import open_socket, serve
    from bursar.control.control_plane import OPERATOR
    from tests.api.harness import LogWritingEngine, make_tokens, open_plane

    folder = Path(sys.argv[1])
    with open_plane(folder, LogWritingEngine(folder / "output"), "here") as plane:
        (folder / "token").write_text(make_tokens(plane)["ann"])
        serve(plane, ApiSettings(state_folder=folder), open_socket())
    print("stopped", flush=True)
"""


@pytest.mark.parametrize("stop_signal", [signal.SIGTERM, signal.SIGINT])
def test_the_server_writes_its_address_responds_and_stops(
    tmp_path: Path, stop_signal: signal.Signals
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"},
        text=True,
        preexec_fn=with_ctrl_c,
    )
    file = tmp_path / SERVER_FILE
    try:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not file.exists():
            assert time.monotonic() < deadline and process.poll() is None, process.communicate()
            time.sleep(0.02)
        written = json.loads(file.read_text())
        assert written["pid"] == process.pid
        assert file.stat().st_mode & 0o777 == 0o600
        port = int(written["address"].rpartition(":")[2])
        client = HttpClient(port, (tmp_path / "token").read_text())
        while is_starting(client):
            assert time.monotonic() < deadline
        with client.events("/v1/events") as events:
            process.send_signal(stop_signal)
            assert events.next() == {"event": "(closed)"}
        out, error = process.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in error, error
    assert "stopped" in out
    assert process.returncode == 0
    assert not file.exists()


def is_starting(client: HttpClient) -> bool:
    try:
        return client.get("/healthz").status != 200
    except OSError:
        time.sleep(0.02)
        return True


def test_a_public_address_is_not_bound_by_default() -> None:
    with pytest.raises(UserError) as refused:
        open_socket("0.0.0.0")
    assert refused.value.code == "remote-bind"


def test_an_address_in_use_is_reported() -> None:
    first = open_socket()
    first.listen()
    try:
        port = first.getsockname()[1]
        assert address_of(first) == f"http://127.0.0.1:{port}"
        with pytest.raises(UserError) as refused:
            open_socket(port=port)
        assert refused.value.code == "address-taken"
    finally:
        first.close()


def test_the_address_file_of_another_process_is_not_removed(tmp_path: Path) -> None:
    file = tmp_path / "state" / SERVER_FILE
    write_server_file(file, "http://127.0.0.1:1")
    assert file.parent.stat().st_mode & 0o777 == 0o700
    file.write_text(json.dumps({"address": "x", "pid": 1}))
    remove_server_file(file)
    assert file.exists()
    write_server_file(file, "http://127.0.0.1:1")
    remove_server_file(file)
    assert not file.exists()
