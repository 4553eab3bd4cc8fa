"""The mutation tester: which code it changes, which it does not, and its results."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.mutants.judge import Outcome, judge
from tools.mutants.operators import mutants_of
from tools.mutants.probe import REACHED, marked
from tools.mutants.sample import Project, candidates_in, default_is_used, sample
from tools.mutants.source import Source

# text -> every (operator, text after the change), in the order of the file.
CHANGES: dict[str, list[tuple[str, str]]] = {
    "a < b": [("comparison", "a <= b")],
    "a <= b > c": [("comparison", "a < b > c"), ("comparison", "a <= b >= c")],
    "a == b": [("comparison", "a != b")],
    "a is not b": [("comparison", "a is b")],
    "(a) not in (b)": [("comparison", "(a) in (b)")],
    "a in b": [("comparison", "a not in b")],
    "é < b": [("comparison", "é <= b")],
    "a and (b) and c": [("and-or", "a or (b) or c")],
    "a or b": [("and-or", "a and b")],
    "not (a)": [("not-removed", "(a)")],
    "-a": [("minus-removed", "a")],
    "a + (b)": [("arithmetic", "a - (b)")],
    "a // b": [("arithmetic", "a * b")],
    "a -= b": [("arithmetic", "a += b")],
    "x = 0": [("constant", "x = 1")],
    "x = -7": [("constant", "x = -8")],
    "x = True": [("constant", "x = False")],
    "if a: b()": [
        ("condition", "if False: b()"),
        ("condition", "if True: b()"),
        ("call-deleted", "if a: pass"),
    ],
    "a if b else c": [("condition", "a if False else c"), ("condition", "a if True else c")],
    "while a: b": [("condition", "while False: b")],
    "[a for a in b if c]": [
        ("condition", "[a for a in b if False]"),
        ("condition", "[a for a in b if True]"),
    ],
    "def f(): return a": [("return", "def f(): return None")],
    "def f() -> bool: return a": [("return", "def f() -> bool: return not (a)")],
    "f(a)": [("call-deleted", "pass")],
    "x = min(a, b)": [("min-max", "x = max(a, b)")],
    "x = max(a)": [("min-max", "x = min(a)")],
    "for a in b: continue": [("jump-removed", "for a in b: pass")],
    "for a in b: break": [("jump-removed", "for a in b: pass")],
    "x = sorted(a, key=k)": [("sort-reversed", "x = sorted(a, key=k, reverse=True)")],
    "x = sorted(a for a in b)": [("sort-reversed", "x = sorted((a for a in b), reverse=True)")],
    "x = sorted(\n  a,\n)": [("sort-reversed", "x = sorted(\n  a,reverse=True)")],
    "x = sorted(a, reverse=True)": [("constant", "x = sorted(a, reverse=False)")],
}

LEFT_ALONE = [
    '"""What it is."""',
    "x = 'a' + b",
    "x = f'{a < 1}'",
    "x: Literal[1]",
    "def f(a: Literal[1]) -> Literal[2]: ...",
    "class A:\n  def __str__(self): return str(self.a + 1)",
    "class A:\n  def __repr__(self): return str(self.a + 1)",
    "if a < b: raise BrokenInvariant('a' + str(1))",
    "def _wrong() -> BrokenInvariant: ...\nif a: raise _wrong(1)",
    "if TYPE_CHECKING: import a",
    "logger.warning(1)",
    "x: int = field(default=1)",
    "@dataclass(frozen=True)\nclass A: ...",
    "assert a < 1",
    "A = B | C",
    "x = isinstance(a, A | B)",
    "x = zip(a, b, strict=True)",
    "__slots__ = ('a', 1)",
]


def source_of(text: str) -> Source:
    return Source("src/tiny/pure/a.py", text.encode())


@pytest.mark.parametrize("text", CHANGES)
def test_a_text_is_changed_by_every_operator(text: str) -> None:
    source = source_of(text)
    found = [(one.operator, source.mutated(one).decode()) for one in mutants_of(source)]
    assert sorted(found) == sorted(CHANGES[text])
    assert all(source.compiles_with(one) for one in mutants_of(source))


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_changes_without_effect_are_not_mutants(text: str) -> None:
    assert mutants_of(source_of(text)) == []


def test_a_change_in_a_comment_is_no_mutant() -> None:
    source = source_of("x = (a  # in the\n in b)")
    [mutant] = mutants_of(source)
    assert b"# not in the" in source.mutated(mutant)
    assert not source.compiles_with(mutant)


def test_a_mark_reports_what_is_executed_and_changes_no_result() -> None:
    text = (
        "def f(a, b):\n    if a and b < 2:\n        return min(a, b) + 1\n    a += 1\n    return a"
    )
    source = source_of(text)
    mutants = list(enumerate(mutants_of(source)))
    reached: set[int] = set()
    names: dict[str, object] = {REACHED: reached.add}
    exec(marked(source, mutants), names)
    f = names["f"]
    assert callable(f) and f(0, 1) == 1
    operators = {mutants[number][1].operator for number in reached}
    assert operators == {"and-or", "condition", "arithmetic", "constant", "return"}
    assert {mutants[number][1].line for number in reached} == {2, 4, 5}
    assert f(1, 1) == 2
    assert reached == {number for number, _ in mutants}


CALC = """
from dataclasses import dataclass


@dataclass
class Offer:
    price: int = 5
    tax: int = 7


def is_large(size: int) -> bool:
    return size > 10


def unread(size: int) -> int:
    return size + 10


def countdown(size: int) -> int:
    while size != 0:
        size -= 1
    return size
"""
TEST_CALC = """
import subprocess
import sys

from tiny.pure.calc import Offer, countdown, is_large


def test_large():
    assert is_large(12) and not is_large(3)


def test_offer():
    assert Offer(tax=1).price == 5


def test_countdown():
    assert countdown(3) == 0


def test_in_another_process():
    program = "from tiny.pure.calc import is_large; raise SystemExit(is_large(3))"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_slow():
    while is_large(11):
        pass


def test_broken():
    assert is_large(0)
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Project:
    """A package with two files and a few tests; one test fails and one does not load."""
    for path, text in {
        "src/tiny/pure/calc.py": CALC,
        "src/tiny/other/words.py": "def f(a):\n    return a + 1\n",
        "tests/test_calc.py": TEST_CALC,
        "tests/test_unloadable.py": "import no_such_module\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return Project(
        root=tmp_path, package="src/tiny", parts=("pure", "other"), test_folders=("tests",)
    )


def test_a_sample_is_the_same_for_the_same_seed_and_has_every_part(tiny: Project) -> None:
    sources = {source.path: source for source in tiny.sources()}
    candidates = candidates_in(sources)
    chosen = [sample(tiny, sources, candidates, 4, seed) for seed in (1, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert [len(one) for one in chosen] == [4, 4, 4]
    assert {tiny.part_of(mutant) for mutant in chosen[0]} == {"pure", "other"}
    everything = sample(tiny, sources, candidates, 1000, 1)
    assert len(everything) == len(candidates) - 1  # the unused default is left out


def test_files_are_chosen_by_pattern(tiny: Project) -> None:
    assert [one.path for one in tiny.sources("pure/*")] == ["src/tiny/pure/calc.py"]
    assert [one.path for one in tiny.sources("src/tiny/other/w*")] == ["src/tiny/other/words.py"]


def test_a_default_is_a_mutant_if_a_caller_uses_it(tiny: Project) -> None:
    [source] = tiny.sources("pure/*")
    used = {one.field: default_is_used(tiny.root, one) for one in mutants_of(source) if one.field}
    assert used == {("Offer", "price"): True, ("Offer", "tax"): False}


def test_killed_and_surviving_mutants_are_distinguished(tiny: Project) -> None:
    sources = {source.path: source for source in tiny.sources("pure/*")}
    mutants = {
        sources[one.path].changed_lines(one)[1]: one
        for one in sample(tiny, sources, candidates_in(sources), 1000, 1)
    }
    planted = {
        "return not (size > 10)": Outcome.KILLED,
        "return size >= 10": Outcome.SURVIVED,  # no test tries ten
        "return size - 10": Outcome.NOT_COVERED,
        "size += 1": Outcome.TIMEOUT,
        "price: int = 6": Outcome.KILLED,
    }
    reports: list[str] = []
    verdicts = judge(
        tiny,
        [mutants[text] for text in planted],
        jobs=2,
        slowest_seconds=1,
        report=reports.append,
    )
    found = {sources[one.mutant.path].changed_lines(one.mutant)[1]: one.outcome for one in verdicts}
    assert found == planted
    assert reports[1:] == [
        "left out: tests/test_calc.py::test_slow: slow",
        "left out: tests/test_calc.py::test_broken: fails without a mutant",
        "left out: tests/test_unloadable.py: fails without a mutant",
    ]
    assert (tiny.root / "src/tiny/pure/calc.py").read_text() == CALC
