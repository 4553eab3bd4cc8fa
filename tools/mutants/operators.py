"""Every small change to a file that a test should notice."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from tools.mutants.source import Mutant, Source, Span

# The operator as a pattern, and what takes its place.
COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "//"),
    ast.BitOr: (r"\|", "&"),
    ast.BitAnd: ("&", "|"),
}
TEXT_OR_SEQUENCE = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp)

# Methods whose result is a message or need not be one value rather than another.
UNJUDGED_METHODS = frozenset({"__str__", "__repr__", "__hash__"})
UNJUDGED_NAMES = frozenset({"__all__", "__slots__", "__match_args__"})
UNJUDGED_NODES = (ast.JoinedStr, ast.Assert, ast.Import, ast.ImportFrom, ast.pattern)
UNJUDGED_FIELDS = frozenset({"annotation", "returns", "decorator_list", "bases", "type_comment"})
# A call to one of these describes a type or a field, or writes a log.
UNJUDGED_CALLS = frozenset({"TypeVar", "NewType", "cast", "field", "logger", "logging"})
BROKEN_INVARIANT = "BrokenInvariant"


@dataclass(frozen=True)
class Place:
    """The position of a node in the file."""

    source: Source
    function: ast.FunctionDef | None = None
    field: tuple[str, str] | None = None

    def change(self, node: ast.expr | ast.stmt, operator: str, replacement: str) -> Mutant:
        return Mutant(
            path=self.source.path,
            line=node.lineno,
            operator=operator,
            span=self.source.span(node),
            replacement=replacement,
            is_statement=isinstance(node, ast.stmt),
            field=self.field,
        )

    def text(self, node: ast.expr) -> str:
        return self.source.text(self.source.span(node))

    def with_operators(
        self,
        node: ast.expr | ast.stmt,
        operands: Sequence[ast.expr],
        changes: Mapping[int, tuple[str, str]],
    ) -> str:
        """The text of a node with some of the operators between its operands replaced."""
        whole = self.source.span(node)
        text, start = "", whole.start
        for index, (left, right) in enumerate(pairwise(map(self.source.span, operands))):
            gap = self.source.text(Span(left.end, right.start))
            if index in changes:
                gap = re.sub(*changes[index], gap, count=1)
            text += self.source.text(Span(start, left.end)) + gap
            start = right.start
        return text + self.source.text(Span(start, whole.end))


def mutants_of(source: Source) -> list[Mutant]:
    """Every mutant of a file, each once, in the order of the file."""
    found = {
        mutant.sort_key: mutant
        for node, place in _judged(source.tree, Place(source), _invariant_names(source.tree))
        for kind, changes in OPERATORS
        if isinstance(node, kind)
        for mutant in changes(node, place)
    }
    return [found[key] for key in sorted(found)]


def _invariant_names(tree: ast.Module) -> frozenset[str]:
    """What is raised when we are wrong ourselves: the error, and functions that build it."""
    return frozenset({BROKEN_INVARIANT}) | {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and isinstance(node.returns, ast.Name)
        and node.returns.id == BROKEN_INVARIANT
    }


def _judged(
    node: ast.AST, place: Place, invariants: frozenset[str]
) -> Iterator[tuple[ast.AST, Place]]:
    """The nodes that may be changed, without those whose change no test should have to notice."""
    yield node, place
    for name, value in ast.iter_fields(node):
        if name in UNJUDGED_FIELDS:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_unjudged(child, node, invariants):
                yield from _judged(child, _place_of(child, node, place), invariants)


def _place_of(child: ast.AST, parent: ast.AST, place: Place) -> Place:
    if isinstance(child, ast.FunctionDef):
        return replace(place, function=child, field=None)
    if isinstance(parent, ast.ClassDef) and isinstance(child, ast.AnnAssign):
        return replace(place, field=(parent.name, ast.unparse(child.target)))
    return place


def _is_unjudged(node: ast.AST, parent: ast.AST, invariants: frozenset[str]) -> bool:
    if isinstance(node, ast.FunctionDef):
        return node.name in UNJUDGED_METHODS
    if isinstance(node, ast.Assign):
        return any(isinstance(one, ast.Name) and one.id in UNJUDGED_NAMES for one in node.targets)
    if isinstance(node, ast.Raise):
        return _name(node.exc) in invariants
    if isinstance(node, ast.If):
        only_raises = len(node.body) == 1 and isinstance(node.body[0], ast.Raise)
        guards = only_raises and _is_unjudged(node.body[0], node, invariants)
        return (guards and not node.orelse) or _name(node.test) == "TYPE_CHECKING"
    if isinstance(node, ast.Call):
        return bool(UNJUDGED_CALLS & set(_names(node.func)))
    if isinstance(node, ast.keyword):
        return node.arg == "strict"
    if isinstance(parent, ast.Call) and _name(parent.func) == "isinstance":
        return node is parent.args[1]
    return isinstance(node, UNJUDGED_NODES)


def _name(node: ast.AST | None) -> str | None:
    """The last name of ``f``, ``a.f``, ``f(x)`` and ``a.f(x)``."""
    if isinstance(node, ast.Call):
        return _name(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def _names(node: ast.AST) -> Iterator[str]:
    """``a`` and ``f`` of ``a.f``, without the underscore of private names."""
    while isinstance(node, ast.Attribute):
        yield node.attr.lstrip("_")
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id.lstrip("_")


def _comparison(node: ast.Compare, place: Place) -> Iterator[Mutant]:
    operands = [node.left, *node.comparators]
    for index, operator in enumerate(node.ops):
        changed = place.with_operators(node, operands, {index: COMPARISONS[type(operator)]})
        yield place.change(node, "comparison", changed)


def _and_or(node: ast.BoolOp, place: Place) -> Iterator[Mutant]:
    words = (r"\band\b", "or") if isinstance(node.op, ast.And) else (r"\bor\b", "and")
    changes = dict.fromkeys(range(len(node.values)), words)
    yield place.change(node, "and-or", place.with_operators(node, node.values, changes))


def _unary(node: ast.UnaryOp, place: Place) -> Iterator[Mutant]:
    if isinstance(node.op, ast.Not):
        yield place.change(node, "not-removed", re.sub(r"^not\b\s*", "", place.text(node)))
    elif isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield place.change(node, "minus-removed", place.text(node).removeprefix("-"))


def _arithmetic(node: ast.BinOp, place: Place) -> Iterator[Mutant]:
    if type(node.op) not in ARITHMETIC or _is_text(node.left) or _is_text(node.right):
        return
    if isinstance(node.op, ast.BitOr | ast.BitAnd) and place.function is None:
        return  # outside functions this is a union of types
    changes = {0: ARITHMETIC[type(node.op)]}
    changed = place.with_operators(node, [node.left, node.right], changes)
    yield place.change(node, "arithmetic", changed)


def _is_text(node: ast.expr) -> bool:
    """Whether this surely is a text or a sequence, where other arithmetic makes no sense."""
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node, TEXT_OR_SEQUENCE) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _augmented(node: ast.AugAssign, place: Place) -> Iterator[Mutant]:
    if type(node.op) in ARITHMETIC and not _is_text(node.value):
        changes = {0: ARITHMETIC[type(node.op)]}
        changed = place.with_operators(node, [node.target, node.value], changes)
        yield place.change(node, "arithmetic", changed)


def _constant(node: ast.Constant, place: Place) -> Iterator[Mutant]:
    if isinstance(node.value, bool):
        yield place.change(node, "constant", str(not node.value))
    elif isinstance(node.value, int | float):
        yield place.change(node, "constant", repr(node.value + 1))


def _condition(
    node: ast.If | ast.IfExp | ast.While | ast.comprehension, place: Place
) -> Iterator[Mutant]:
    tests = node.ifs if isinstance(node, ast.comprehension) else [node.test]
    # A loop that never ends only costs time.
    values = ("False",) if isinstance(node, ast.While) else ("True", "False")
    for test in tests:
        if not isinstance(test, ast.Constant):
            yield from (place.change(test, "condition", value) for value in values)


def _return(node: ast.Return, place: Place) -> Iterator[Mutant]:
    value = node.value
    if value is None or isinstance(value, ast.Constant | ast.JoinedStr):
        return  # nothing, a message, or what is changed as a constant
    returns = place.function.returns if place.function else None
    if isinstance(returns, ast.Name) and returns.id == "bool":
        yield place.change(node, "return", f"return not ({place.text(value)})")
    else:
        yield place.change(node, "return", "return None")


def _call(node: ast.Call, place: Place) -> Iterator[Mutant]:
    if isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
        other = "max" if node.func.id == "min" else "min"
        yield place.change(node, "min-max", other + place.text(node)[3:])
    is_sort = isinstance(node.func, ast.Attribute) and node.func.attr == "sort"
    is_sorted = isinstance(node.func, ast.Name) and node.func.id == "sorted"
    if (is_sort or is_sorted) and all(one.arg != "reverse" for one in node.keywords):
        yield place.change(node, "sort-reversed", _reversed(node, place))


def _reversed(node: ast.Call, place: Place) -> str:
    """The same call with ``reverse=True`` after its other arguments."""
    given = [*node.args, *(one.value for one in node.keywords)]
    if len(given) == 1 and isinstance(given[0], ast.GeneratorExp):
        return f"{place.text(node.func)}({place.text(given[0])}, reverse=True)"
    text = place.text(node).removesuffix(")").rstrip()
    comma = "" if not given or text.endswith(",") else ", "
    return f"{text}{comma}reverse=True)"


def _deleted(node: ast.Expr, place: Place) -> Iterator[Mutant]:
    if isinstance(node.value, ast.Call) and not _is_unjudged(node.value, node, frozenset()):
        yield place.change(node, "call-deleted", "pass")


def _jump(node: ast.Continue | ast.Break, place: Place) -> Iterator[Mutant]:
    yield place.change(node, "jump-removed", "pass")


OPERATORS: tuple[tuple[Any, Callable[[Any, Place], Iterator[Mutant]]], ...] = (
    (ast.Compare, _comparison),
    (ast.BoolOp, _and_or),
    (ast.UnaryOp, _unary),
    (ast.BinOp, _arithmetic),
    (ast.AugAssign, _augmented),
    (ast.Constant, _constant),
    (ast.If | ast.IfExp | ast.While | ast.comprehension, _condition),
    (ast.Return, _return),
    (ast.Call, _call),
    (ast.Expr, _deleted),
    (ast.Continue | ast.Break, _jump),
)
