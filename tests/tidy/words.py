"""Words of our old private language, which a reader from outside would not understand."""

from __future__ import annotations

import re

from tests.tidy.source import Finding, Source

PLAIN = {
    "warden": "supervisor",
    "errand": "background task",
    "courier": "delivery thread",
    "tidings": "messages",
    "heed": "handle",
    "befell": "happened to",
    "lately": "recently",
    "he": "they, or the user",
    "him": "them, or the user",
    "his": "their, or the user's",
    "is succeeded": "succeeded",
    "nobody": "no job, no user, no process",
    "somebody": "the user, another process",
    "whoever": "the caller, any user",
    "told": "reported, notified, requested",
    "telling": "reporting, notifying",
    "tells": "reports, shows",
    "said": "given, written, returned",
    "perhaps": "may, possibly",
    "beside the": "next to, with, outside",
    "alike": "identical, similar, equally",
    "standing": "status, rank",
}
"""Each word, or phrase, and what to write instead."""

FOLDERS = frozenset({"src", "tests", "docs", "examples", "studies", "benchmarks", "tools"})
EXEMPT = frozenset({"CHANGELOG.md", "words.py"})
"""Old entries of the change log use old words; the list itself is in ``words.py``."""
_WORDS = re.compile(rf"(?<![a-z])({'|'.join(PLAIN)})s?(?![a-z])", re.IGNORECASE)


def words_are_plain(source: Source) -> list[Finding]:
    """Code and pages use the trade's words; identifiers count too."""
    if source.path.suffix not in (".py", ".md") or source.path.name in EXEMPT:
        return []
    if len(source.path.parts) > 1 and source.path.parts[0] not in FOLDERS:
        return []
    return [
        source.finding(
            number, f"'{word.group()}' is not plain English", f"write '{PLAIN[_base(word)]}'"
        )
        for number, line in enumerate(source.text.splitlines(), start=1)
        for word in _WORDS.finditer(line)
    ]


def _base(word: re.Match[str]) -> str:
    return word.group(1).lower()
