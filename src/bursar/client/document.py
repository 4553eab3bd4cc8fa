"""A job document, and changes to it that preserve its line numbers.

The server reports errors by line and column, so the text sent must have the same lines as the user's file.
Values are replaced in the text itself; comments outside them are preserved.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bursar.client.errors import Invalid, Refused

if TYPE_CHECKING:
    import yaml

SENT_AS: Final = "job.yaml:"
"""The file name of every document in messages of the server."""
SENT: Final = "sha256:"
"""The prefix of files that are already uploaded."""
FILES: Final = re.compile(r"\b(?:workdir|file_mounts)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The text of a job, whether it is JSON, and the folder of its relative paths."""

    text: str
    is_json: bool = False
    folder: Path = Path()
    name: str = ""

    @property
    def content_type(self) -> str:
        return "application/json" if self.is_json else "application/yaml"

    def mentions_files(self) -> bool:
        """Whether the text may name local files; cheaper than parsing it."""
        return FILES.search(self.text) is not None

    def keys(self) -> dict[str, object] | None:
        """Its keys; None if it cannot be parsed: the server has the better error message."""
        if self.is_json:
            values = json.loads(self.text)
        else:
            import yaml

            try:
                values = yaml.safe_load(self.text)
            except (yaml.YAMLError, ValueError, RecursionError):
                return None
        return values if isinstance(values, dict) else None

    def with_keys(self, changes: Mapping[str, object]) -> Document:
        """The document with other values for top-level keys."""
        if not changes:
            return self
        if self.is_json:
            changed = {**json.loads(self.text), **changes}
            return replace(self, text=json.dumps(changed, ensure_ascii=False))
        text = self.text
        for key in sorted(changes):
            text = _set_key(text, key, json.dumps(changes[key], ensure_ascii=False))
        return replace(self, text=text)


def read_document(source: Mapping[str, object] | str | Path) -> Document:
    """Reads a mapping, a path, or text; a string of several lines is text."""
    if isinstance(source, Mapping):
        try:
            return Document(text=json.dumps(dict(source), ensure_ascii=False), is_json=True)
        except (TypeError, ValueError) as error:
            raise Invalid(
                f"the job cannot be written as JSON: {error}.",
                fix="Use texts, numbers, lists and mappings only.",
                code="not-json",
            ) from error
    if isinstance(source, str) and ("\n" in source or ": " in source):
        return Document(text=source)
    return _from_file(Path(source))


@contextmanager
def naming(document: Document) -> Iterator[None]:
    """Puts the user's file name into errors of the server inside the block."""
    try:
        yield
    except Refused as refused:
        if document.name and refused.problem.startswith(SENT_AS):
            refused.problem = f"{document.name}:{refused.problem.removeprefix(SENT_AS)}"
        raise


def _from_file(path: Path) -> Document:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise Invalid(
            f"{path} cannot be read: {why}.",
            fix="Check the path, or write the job as text: 'bursar submit -- COMMAND'.",
            code="no-job-file",
        ) from error
    return Document(text=text, folder=path.parent, name=str(path))


def _set_key(text: str, key: str, value: str) -> str:
    """Replaces the value of ``key`` in the text, or appends the key."""
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return text
    if root is None:
        return f"{text.rstrip()}\n{key}: {value}\n"
    if not isinstance(root, yaml.MappingNode):
        return text
    for name, node in root.value:
        if name.value == key:
            return _replace(text, node, value)
    if root.flow_style:
        end = root.end_mark.index - 1
        comma = ", " if root.value else ""
        return f"{text[:end].rstrip().rstrip(',')}{comma}{json.dumps(key)}: {value}{text[end:]}"
    end = _end_of_block(text, root)
    return f"{text[:end].rstrip()}\n{key}: {value}\n{text[end:]}"


def _replace(text: str, node: yaml.Node, value: str) -> str:
    """Replaces one value and preserves the number of its lines."""
    start, end = node.start_mark.index, node.end_mark.index
    old = text[start:end]
    trailing = old[len(old.rstrip()) :]
    line_ends = old.rstrip().count("\n")
    gap = " " if text[:start].endswith(":") else ""
    return f"{text[:start]}{gap}{value}{chr(10) * line_ends}{trailing}{text[end:]}"


def _end_of_block(text: str, root: yaml.Node) -> int:
    """Where the document ends: before ``...`` or a second ``---``, else at the end of the text."""
    end = root.end_mark.index
    return end if text[end : end + 3] in ("...", "---") else len(text)


def changes_for(changes: Mapping[str, object], document: Document) -> dict[str, object]:
    """Merges ``gpus``, ``envs`` and ``secrets`` with the document; other keys replace its keys."""
    merged = dict(changes)
    gpus = merged.pop("gpus", None)
    mappings = [key for key in ("envs", "secrets") if isinstance(merged.get(key), dict)]
    keys = (document.keys() or {}) if gpus is not None or mappings else {}
    if gpus is not None:
        merged["resources"] = {
            **_mapping(merged.get("resources", keys.get("resources"))),
            "accelerators": gpus,
        }
    for key in mappings:
        merged[key] = {**_mapping(keys.get(key)), **_mapping(merged[key])}
    return merged


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
