"""Checks the links, paths, commands, words and headings of the pages."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import bursar
from tests.tidy.source import ROOT, project_sources

PAGES = {
    source.path.as_posix(): source.text
    for source in project_sources()
    if source.path.suffix == ".md"
}
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
DECISION_HEADINGS = [
    "Problem",
    "Choice",
    "Rejected alternatives",
    "How we would know it was wrong",
]

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
QUOTED_PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)*(?:/|/[\w-]+\.(?:md|py|toml|ya?ml)))`")
MAKE = re.compile(r"`(?:\w+=\S+ )*make((?: [\w=/.-]+)+)`")
TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)

every_page = pytest.mark.parametrize("page", sorted(PAGES))


@every_page
def test_links_have_a_target(page: str) -> None:
    expect_none(f"{page}: links to nothing", dead_links(ROOT / page, PAGES[page]))


@every_page
def test_paths_in_backticks_exist(page: str) -> None:
    expect_none(f"{page}: paths that do not exist", missing_paths(ROOT / page, PAGES[page]))


@every_page
def test_make_targets_exist(page: str) -> None:
    expect_none(f"{page}: targets the Makefile lacks", unknown_targets(PAGES[page]))


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_has_its_four_headings(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == DECISION_HEADINGS
    assert text.startswith(f"# {page.stem[:4]}: ")


def test_decisions_are_numbered_without_gaps_and_listed() -> None:
    assert [int(page.stem[:4]) for page in DECISIONS] == list(range(1, len(DECISIONS) + 1))
    listed = LINK.findall(PAGES["docs/decisions/README.md"])
    assert listed == [page.name for page in DECISIONS]


def test_the_list_of_decisions_marks_which_still_apply() -> None:
    marks = {"**Superseded:** ": "no", "**Superseded in part:** ": "in part"}
    rows = re.findall(r"^\| \d+ \| .* \| (.+) \|$", PAGES["docs/decisions/README.md"], re.MULTILINE)
    texts = [page.read_text(encoding="utf-8").split("\n", 2)[2] for page in DECISIONS]
    holds = [
        next((word for mark, word in marks.items() if text.startswith(mark)), "yes")
        for text in texts
    ]
    assert rows == holds


def test_each_word_of_the_glossary_has_one_row() -> None:
    expect_none("words with two rows", repeated_words(PAGES["docs/glossary.md"]))


def test_the_version_is_in_the_changelog() -> None:
    assert re.search(rf"^## {re.escape(bursar.__version__)}\b", PAGES["CHANGELOG.md"], re.MULTILINE)


def test_a_bad_page_is_reported() -> None:
    page = ROOT / "docs" / "page.md"
    assert dead_links(page, "[a](none.md) [b](glossary.md#no-such) [c](glossary.md#units)") == [
        "none.md",
        "glossary.md#no-such",
    ]
    assert missing_paths(page, "`core/none.py` `docs/` `decisions/` `no_such/` `a/b`") == [
        "core/none.py",
        "no_such/",
    ]
    assert unknown_targets("`make test` `make tset` `X=1 make run` `make PYTHON=/a/b nothing`") == [
        "tset",
        "nothing",
    ]
    table = "| word | means | where |\n|---|---|---|\n| job | a | b |\n| Job | c | d |\n"
    assert repeated_words(table) == ["job"]
    assert repeated_words("no table at all") == ["(no words found)"]


def expect_none(problem: str, found: list[str]) -> None:
    if found:
        pytest.fail(f"{problem}: {', '.join(found)}", pytrace=False)


def dead_links(page: Path, text: str) -> list[str]:
    """Relative links to a file that is not there, or to a heading that its page does not have."""
    return [
        link
        for link in LINK.findall(FENCE.sub("", text))
        if not re.match(r"\w+:", link) and not _has_target(page, link, text)
    ]


def _has_target(page: Path, link: str, text: str) -> bool:
    name, _, anchor = link.partition("#")
    target = page.parent / name if name else page
    if not target.exists():
        return False
    if not anchor:
        return True
    headings = HEADING.findall(target.read_text(encoding="utf-8") if name else text)
    return anchor in {
        re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings
    }


def missing_paths(page: Path, text: str) -> list[str]:
    """Paths that are neither in the project, nor in the package, nor next to the page."""
    places = (ROOT, ROOT / "src" / "bursar", page.parent)
    return [
        path
        for path in QUOTED_PATH.findall(FENCE.sub("", text))
        if not path.startswith("..") and not any((place / path).exists() for place in places)
    ]


def unknown_targets(text: str) -> list[str]:
    """Words after ``make`` that the Makefile does not know."""
    known = set(TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    return [
        word
        for words in MAKE.findall(text)
        for word in words.split()
        if "=" not in word and word not in known
    ]


def repeated_words(text: str) -> list[str]:
    """Words with more than one row in the glossary's tables."""
    rows = [line.split("|")[1].strip().lower() for line in text.splitlines() if line[:1] == "|"]
    words = Counter(word for word in rows if word != "word" and set(word) != {"-"})
    return sorted(word for word, count in words.items() if count > 1) or (
        [] if words else ["(no words found)"]
    )
