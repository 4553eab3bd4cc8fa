"""Habits that cost later: hidden modes, swallowed errors, leftovers."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from tests.tidy.source import Finding, Source

UNFINISHED = re.compile(r"\b(TO[D]O|FIX[M]E|X[X]X)\b")
DIRECTIVE = re.compile(r"#\s*(type:|noqa|fmt:|pragma|ruff:|mypy:|!)")
LOGS = frozenset({"log", "logger", "logging", "print", "traceback", "warnings"})
LEFTOVER_CALLS = frozenset({"print", "breakpoint"})


def python_files_parse(source: Source) -> list[Finding]:
    """A file that cannot be read keeps every other rule by accident."""
    error = source.syntax_error
    if error is None:
        return []
    return [source.finding(error.lineno or 1, f"not Python: {error.msg}", "correct the syntax")]


def no_branch_on_simulating(source: Source) -> list[Finding]:
    """Worlds differ by the objects they hand in, never by an if."""
    if not source.in_package or source.part == "simulate":
        return []
    findings = []
    for node in source.nodes:
        test = _condition(node)
        if test is not None and any("simulat" in name.lower() for name in _identifiers(test)):
            rule = "a branch asks whether this is a simulation"
            fix = "give each world its own object behind a Protocol in ports.py"
            findings.append(source.finding(test.lineno, rule, fix))
    return findings


def no_swallowed_errors(source: Source) -> list[Finding]:
    """Catching everything and going on hides the error that matters."""
    findings = []
    for node in source.nodes:
        if isinstance(node, ast.ExceptHandler) and _catches_all(node.type):
            if all(_does_nothing(statement) for statement in node.body):
                rule = "every exception is caught and at most logged"
                fix = "catch the error you expect, and turn it into an event, a hold or a UserError"
                findings.append(source.finding(node.lineno, rule, fix))
    return findings


def no_print_in_the_package(source: Source) -> list[Finding]:
    """Only the command line writes to the terminal."""
    if not source.in_package or source.part == "cli":
        return []
    return [
        source.finding(node.lineno, "print() in the package", "return the text to the caller")
        for node in source.nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]


def no_unfinished_marks(source: Source) -> list[Finding]:
    """A note to do it later is either done now or written where work is planned."""
    return [
        source.finding(number, f"'{mark.group()}' left in the text", "do it, or delete the note")
        for number, line in enumerate(source.text.splitlines(), start=1)
        for mark in UNFINISHED.finditer(line)
    ]


def no_stubs(source: Source) -> list[Finding]:
    """Code that is not there yet is left out; a Protocol states what is to come."""
    if not source.in_package:
        return []
    return [
        source.finding(node.lineno, "NotImplementedError", "write it, or leave it out for now")
        for node in source.nodes
        if isinstance(node, ast.Name) and node.id == "NotImplementedError"
    ]


def interrupted_children_accept_ctrl_c(source: Source) -> list[Finding]:
    """Tests run in the background start every child with SIGINT ignored."""
    if source.path.parts[0] != "tests" or "with_ctrl_c" in source.text:
        return []
    rule, fix = "a child may ignore SIGINT", "start it with preexec_fn=with_ctrl_c"
    return [
        source.finding(node.lineno, rule, fix)
        for node in source.nodes
        if isinstance(node, ast.Attribute) and node.attr == "SIGINT"
    ]


def no_async_outside_api(source: Source) -> list[Finding]:
    """Synchronous code everywhere but in api/, so that nothing is written twice."""
    if not source.in_package or source.part == "api":
        return []
    return [
        source.finding(node.lineno, f"async {node.name}() outside api/", "write it synchronously")
        for node in source.nodes
        if isinstance(node, ast.AsyncFunctionDef)
    ]


def no_commented_out_code(source: Source) -> list[Finding]:
    """History keeps old code; a comment states an invariant or a reason."""
    if source.tree is None or not any(map(_is_code, _marked_lines(source.text))):
        return []
    fix = "delete it; write an equation with == or in words"
    return [
        source.finding(line, f"commented-out code '{text}'", fix)
        for line, text in _own_line_comments(source.text)
        if _is_code(text)
    ]


def _condition(node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.If | ast.IfExp):
        return node.test
    return node.guard if isinstance(node, ast.match_case) else None


def _identifiers(expression: ast.expr) -> Iterator[str]:
    for node in ast.walk(expression):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def _catches_all(caught: ast.expr | None) -> bool:
    if isinstance(caught, ast.Tuple):
        return any(_catches_all(one) for one in caught.elts)
    return caught is None or (
        isinstance(caught, ast.Name) and caught.id in ("Exception", "BaseException")
    )


def _does_nothing(statement: ast.stmt) -> bool:
    """Whether a statement lets the error vanish: nothing done, or nothing but a line in a log."""
    if isinstance(statement, ast.Pass | ast.Continue | ast.Break):
        return True
    if isinstance(statement, ast.Return):
        return statement.value is None or isinstance(statement.value, ast.Constant)
    if not isinstance(statement, ast.Expr):
        return False
    if isinstance(statement.value, ast.Call):
        return bool(LOGS & {name.lstrip("_") for name in _identifiers(statement.value.func)})
    return isinstance(statement.value, ast.Constant)


def _marked_lines(text: str) -> Iterator[str]:
    """Lines that begin like a comment: few, where a tokenizer would look at every word."""
    for line in map(str.lstrip, text.splitlines()):
        if line.startswith("#"):
            yield line.lstrip("#").strip()


def _own_line_comments(text: str) -> Iterator[tuple[int, str]]:
    """Comments that stand on a line of their own, without the mark."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        alone = token.type == tokenize.COMMENT and token.line.lstrip().startswith("#")
        if alone and not DIRECTIVE.match(token.string):
            yield token.start[0], token.string.lstrip("#").strip()


def _is_code(comment: str) -> bool:
    """Whether a comment is surely Python; prose that happens to parse is left alone."""
    is_header = comment.endswith(":")
    try:
        body = ast.parse(f"{comment} pass" if is_header else comment).body
    except (SyntaxError, ValueError):
        return False
    if len(body) != 1:
        return False
    statement = body[0]
    if isinstance(statement, ast.Assign | ast.AugAssign | ast.Import | ast.ImportFrom):
        return True
    if isinstance(statement, ast.AnnAssign):
        return statement.value is not None
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Call) and _is_leftover_call(statement.value)
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return True
    technical = (ast.Attribute, ast.BinOp, ast.Call, ast.Compare, ast.Subscript)
    return any(isinstance(node, technical) for node in ast.walk(statement))


def _is_leftover_call(call: ast.Call) -> bool:
    """``draft.apply(event)`` is code; ``O(changed)`` is prose."""
    if isinstance(call.func, ast.Name):
        return call.func.id in LEFTOVER_CALLS
    return isinstance(call.func, ast.Attribute)
