"""Runs one pickled call inside a job and sends back its result or exception.

``Client.submit(function, ...)`` puts this file, the call and the function's module into the job's files;
it needs only a Python interpreter. Bursar does not store results, so the outcome is sent in marked lines
of the job's standard output, which the client extracts; and it is written to the file that
``BURSAR_RESULT_FILE`` names, if set.

An outcome is one line of JSON, a line end, and a pickle of the value or of the exception.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import sys
import traceback
from pathlib import Path
from typing import Any

CALL_FILE = "call.pickle"
ABOUT_FILE = "call.json"
RESULT_FILE = "BURSAR_RESULT_FILE"
MARK = "::bursar-result"
MOST_RESULT_BYTES = 10 * 1024 * 1024
CHUNK_BYTES = 3 * 1024


def main(arguments: list[str]) -> int:
    """Run the call in the given folder, by default this file's; returns 0, or 1 if it raised."""
    folder = Path(arguments[0]) if arguments else Path(__file__).parent
    sys.path.insert(0, os.getcwd())
    outcome, code = _run(folder)
    if os.environ.get("RANK", "0") == "0":
        _deliver(outcome)
    return code


def _run(folder: Path) -> tuple[bytes, int]:
    try:
        _check_version(folder)
        call = pickle.loads((folder / CALL_FILE).read_bytes())
        value = call["function"](*call["args"], **call["kwargs"])
        return _outcome({"ok": True}, value), 0
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        return _failure(error), 1


def _check_version(folder: Path) -> None:
    """A function pickled by value runs only under the same version of Python."""
    about = json.loads((folder / ABOUT_FILE).read_text(encoding="utf-8"))
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if about["by_value"] and about["python"] != here:
        raise RuntimeError(
            f"the function was pickled by Python {about['python']} and this job runs Python {here}: "
            f"put the function into a module, or choose python{about['python']} for the job"
        )


def _outcome(about: dict[str, Any], value: object) -> bytes:
    content = pickle.dumps(value, protocol=4)
    if len(content) > MOST_RESULT_BYTES:
        raise ValueError(
            f"the result is {len(content):,} bytes; at most {MOST_RESULT_BYTES:,} can be returned: "
            "write it to shared storage and return its path"
        )
    return json.dumps(about).encode() + b"\n" + content


def _failure(error: BaseException) -> bytes:
    about = {
        "ok": False,
        "type": type(error).__name__,
        "message": str(error),
        "traceback": "".join(traceback.format_exception(error)),
    }
    try:
        return _outcome(about, error)
    except Exception as unsendable:
        about["unsendable"] = str(unsendable)
        return _outcome(about, None)


def _deliver(outcome: bytes) -> None:
    result_file = os.environ.get(RESULT_FILE)
    if result_file:
        partial = Path(f"{result_file}.part")
        partial.write_bytes(outcome)
        partial.replace(result_file)
    chunks = [outcome[at : at + CHUNK_BYTES] for at in range(0, len(outcome), CHUNK_BYTES)]
    lines = [
        f"{MARK} {number}/{len(chunks)} {base64.b64encode(chunk).decode()}\n"
        for number, chunk in enumerate(chunks, start=1)
    ]
    sys.stdout.flush()
    sys.stdout.write("\n" + "".join(lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
