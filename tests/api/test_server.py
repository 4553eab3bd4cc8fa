"""The server as a process: how it is found, what it refuses to bind, and how it ends."""

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
    ServeOptions,
    address_of,
    open_socket,
    remove_server_file,
    write_server_file,
)
from bursar.model.errors import UserError
from tests.api.asking import PATIENCE_SECONDS, Asker
from tests.children import with_ctrl_c
from tests.tidy.source import ROOT

PROGRAM = """
    import sys
    from pathlib import Path
    from bursar.api.server import ServeOptions, serve
    from bursar.control.control_plane import OPERATOR
    from tests.api.scene import WritingEngine, make_tokens, open_plane

    folder = Path(sys.argv[1])
    with open_plane(folder, WritingEngine(folder / "output"), "here") as plane:
        (folder / "token").write_text(make_tokens(plane)["ann"])
        serve(plane, ServeOptions(state_folder=folder))
    print("ended well", flush=True)
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_is_found_answers_and_ends_well(tmp_path: Path, how: signal.Signals) -> None:
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
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not file.exists():
            assert time.monotonic() < deadline and process.poll() is None, process.communicate()
            time.sleep(0.02)
        written = json.loads(file.read_text())
        assert written["pid"] == process.pid
        assert file.stat().st_mode & 0o777 == 0o600
        port = int(written["address"].rpartition(":")[2])
        asker = Asker(port, (tmp_path / "token").read_text())
        while asker_is_early(asker):
            assert time.monotonic() < deadline
        with asker.events("/v1/events") as events:
            process.send_signal(how)
            assert events.next() == {"event": "(closed)"}
        out, error = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in error, error
    assert "ended well" in out
    assert process.returncode == 0
    assert not file.exists()


def asker_is_early(asker: Asker) -> bool:
    try:
        return asker.get("/healthz").status != 200
    except OSError:
        time.sleep(0.02)
        return True


def test_an_address_of_others_is_not_bound_by_accident(tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        open_socket(ServeOptions(state_folder=tmp_path, host="0.0.0.0"))
    assert refused.value.code == "remote-bind"


def test_a_taken_address_is_told(tmp_path: Path) -> None:
    first = open_socket(ServeOptions(state_folder=tmp_path))
    first.listen()
    try:
        port = first.getsockname()[1]
        assert address_of(first) == f"http://127.0.0.1:{port}"
        with pytest.raises(UserError) as refused:
            open_socket(ServeOptions(state_folder=tmp_path, port=port))
        assert refused.value.code == "address-taken"
    finally:
        first.close()


def test_the_note_of_another_process_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "state" / SERVER_FILE
    write_server_file(file, "http://127.0.0.1:1")
    assert file.parent.stat().st_mode & 0o777 == 0o700
    file.write_text(json.dumps({"address": "x", "pid": 1}))
    remove_server_file(file)
    assert file.exists()
    write_server_file(file, "http://127.0.0.1:1")
    remove_server_file(file)
    assert not file.exists()
