"""A job written as readable YAML, with scripts as literal blocks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import yaml

_UNWRITABLE = re.compile("[^\t\n\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_job(plain: Mapping[str, Any]) -> str:
    """The job as YAML, with keys in the given order."""
    return "".join(_section(key, value) for key, value in plain.items())


def _section(key: str, value: Any) -> str:
    if isinstance(value, str) and "\n" in value:
        return f"{key}: {_block(value)}"
    return yaml.safe_dump({key: value}, sort_keys=False, allow_unicode=True, width=1_000)


def _block(text: str) -> str:
    """A literal block, which preserves every character of a script."""
    body = text.rstrip("\n")
    if _UNWRITABLE.search(text) or not body:
        return json.dumps(text) + "\n"
    mark = "|2" if body.startswith((" ", "\n")) else "|"
    lines = (f"  {line}" if line else "" for line in body.split("\n"))
    return f"{mark}\n" + "\n".join(lines) + "\n"
