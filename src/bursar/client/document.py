"""A job as it was written, and changes to it that keep its lines where they are.

The server checks the document and names line and column, so what is sent must have the same lines as
what stands in the user's file. Values are exchanged in the text itself; comments outside them stay.
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
"""What the server calls every document."""
SENT: Final = "sha256:"
"""How a document names files that are with the server already."""
FILES: Final = re.compile(r"\b(?:workdir|file_mounts)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The text, whether it is JSON, and the folder that paths in it start from."""

    text: str
    is_json: bool = False
    folder: Path = Path()
    name: str = ""

    @property
    def content_type(self) -> str:
        return "application/json" if self.is_json else "application/yaml"

    def mentions_files(self) -> bool:
        """Whether it is worth the time to look for paths."""
        return FILES.search(self.text) is not None

    def keys(self) -> dict[str, object] | None:
        """What it says, or None when it cannot be read: the server tells better what is wrong."""
        if self.is_json:
            found = json.loads(self.text)
        else:
            import yaml

            try:
                found = yaml.safe_load(self.text)
            except (yaml.YAMLError, ValueError, RecursionError):
                return None
        return found if isinstance(found, dict) else None

    def with_keys(self, changes: Mapping[str, object]) -> Document:
        """The same with other values for keys of its outermost level."""
        if not changes:
            return self
        if self.is_json:
            changed = {**json.loads(self.text), **changes}
            return replace(self, text=json.dumps(changed, ensure_ascii=False))
        text = self.text
        for key in sorted(changes):
            text = _exchange(text, key, json.dumps(changes[key], ensure_ascii=False))
        return replace(self, text=text)


def read_document(source: Mapping[str, object] | str | Path) -> Document:
    """A mapping, a path, or the text itself: a string of several lines is text."""
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
    """Within the block: what the server says about line and column names the user's own file."""
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


def _exchange(text: str, key: str, value: str) -> str:
    """``text`` with another value for ``key``, or with the key at its end."""
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
    """Exchange one value. As many line ends as were in it follow, so that nothing below moves."""
    start, end = node.start_mark.index, node.end_mark.index
    gone = text[start:end]
    kept = gone[len(gone.rstrip()) :]
    inside = gone.rstrip().count("\n")
    gap = " " if text[:start].endswith(":") else ""
    return f"{text[:start]}{gap}{value}{chr(10) * inside}{kept}{text[end:]}"


def _end_of_block(text: str, root: yaml.Node) -> int:
    """Where the document ends: before ``...`` or a second ``---``, else at the end of the text."""
    end = root.end_mark.index
    return end if text[end : end + 3] in ("...", "---") else len(text)


def changes_for(changes: Mapping[str, object], document: Document) -> dict[str, object]:
    """``gpus``, ``envs`` and ``secrets`` join what the document says; every other key replaces it."""
    made = dict(changes)
    gpus = made.pop("gpus", None)
    joined = [key for key in ("envs", "secrets") if isinstance(made.get(key), dict)]
    said = (document.keys() or {}) if gpus is not None or joined else {}
    if gpus is not None:
        made["resources"] = {
            **_mapping(made.get("resources", said.get("resources"))),
            "accelerators": gpus,
        }
    for key in joined:
        made[key] = {**_mapping(said.get(key)), **_mapping(made[key])}
    return made


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
