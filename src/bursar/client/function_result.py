"""Reads the result of a called function from the output of its job.

The value is a pickle, and unpickling runs code. So only results of the caller's own jobs are read:
``Job.result`` checks the owner.
"""

from __future__ import annotations

import base64
import binascii
import json
import pickle
import re
from typing import Final

from bursar.client.errors import JobFailed

MARK: Final = "::bursar-result"
LINE: Final = re.compile(rf"^{MARK} (\d+)/(\d+) ([A-Za-z0-9+/=]+)\r?$", re.MULTILINE)
BLOCK: Final = re.compile(rf"\n?(?:^{MARK} [^\n]*\n?)+", re.MULTILINE)


def without_results(text: str) -> str:
    """Removes the result lines from output."""
    return BLOCK.sub("", text) if MARK in text else text


class ResultFilter:
    """The same for output in chunks, which may end in the middle of a line.

    An empty line is delayed until the next line is known: every result is preceded by one.
    """

    def __init__(self) -> None:
        self._held = ""
        self._empty_line = ""
        self._inside_a_line = False

    def feed(self, text: str) -> str:
        """Adds a chunk; returns the new output without result lines."""
        *lines, rest = (self._held + text).split("\n")
        self._held = ""
        output = "".join(map(self._line, lines))
        if not self._inside_a_line and (MARK.startswith(rest) or rest.startswith(MARK)):
            self._held = rest
            return output
        self._inside_a_line = True
        return output + self._take_empty_line() + rest

    def _line(self, line: str) -> str:
        ends_a_line, self._inside_a_line = self._inside_a_line, False
        if not ends_a_line and line.startswith(MARK):
            self._empty_line = ""
            return ""
        before = self._take_empty_line()
        if not ends_a_line and not line:
            self._empty_line = "\n"
            return before
        return f"{before}{line}\n"

    def _take_empty_line(self) -> str:
        line, self._empty_line = self._empty_line, ""
        return line


def has_result(output: str) -> bool:
    return LINE.search(output) is not None


def read_result(output: str, job_id: str) -> object:
    """Returns the value; raises the exception that the function raised."""
    about, content = _parts(_joined(output, job_id))
    if about.get("ok") is True:
        return _value(content, job_id)
    try:
        raised = pickle.loads(content)
    except Exception as error:
        raise _raised(job_id, about) from error
    if isinstance(raised, Exception):
        raised.add_note(f"raised in job {job_id}:\n{about.get('traceback', '')}")
        raise raised
    raise _raised(job_id, about)


def _joined(output: str, job_id: str) -> bytes:
    chunks: dict[int, bytes] = {}
    total = 0
    for number, count, text in LINE.findall(output):
        total = int(count)
        try:
            chunks[int(number)] = base64.b64decode(text, validate=True)
        except binascii.Error:
            continue
    if not total:
        raise JobFailed(
            f"{job_id} left no result: it did not run a function, or ended before it could.",
            fix=f"'bursar logs {job_id}' shows what it wrote.",
            code="no-result",
        )
    if len(chunks) != total:
        raise JobFailed(
            f"the result of {job_id} is damaged: {len(chunks)} of {total} parts are in its output.",
            fix="Return less, or write to shared storage and return the path.",
            code="result-damaged",
        )
    return b"".join(chunks[number] for number in sorted(chunks))


def _parts(sent: bytes) -> tuple[dict[str, object], bytes]:
    head, _, content = sent.partition(b"\n")
    about = json.loads(head)
    return (about if isinstance(about, dict) else {}), content


def _value(content: bytes, job_id: str) -> object:
    try:
        return pickle.loads(content)
    except Exception as error:
        raise JobFailed(
            f"the result of {job_id} cannot be read here: {error}.",
            fix="Import the module that defines its type first, or return plain values.",
            code="result-unreadable",
        ) from error


def _raised(job_id: str, about: dict[str, object]) -> JobFailed:
    trace = str(about.get("traceback", "")).rstrip()
    return JobFailed(
        f"the function raised {about.get('type')}: {about.get('message')}\n{trace}",
        fix=f"'bursar logs {job_id}' shows what it wrote.",
        code="function-raised",
    )
