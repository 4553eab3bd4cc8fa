"""Marks in the code that tell which test executes which mutant.

A mark costs next to nothing where a coverage tool would trace every line, and it records whether the very
expression is evaluated, not only its line.
"""

from __future__ import annotations

from collections.abc import Sequence

from tools.mutants.source import Mutant, Source

# Two underscores would be mangled inside a class.
REACHED = "_mutant_reached"


def marked(source: Source, mutants: Sequence[tuple[int, Mutant]]) -> bytes:
    """The file with a call at every mutant that reports its number."""
    # Where marks meet, an inner one closes first, then a statement's comes, then an outer one opens.
    insertions: list[tuple[int, int, int, str]] = []
    for number, mutant in mutants:
        start, end = mutant.span.start, mutant.span.end
        if mutant.is_statement:
            insertions.append((start, 1, 0, f"{REACHED}({number}); "))
        else:
            insertions.append((start, 2, start - end, f"({REACHED}({number}) or "))
            insertions.append((end, 0, 0, ")"))
    content, done = b"", 0
    for offset, *_, text in sorted(insertions):
        content += source.content[done:offset] + text.encode()
        done = offset
    return content + source.content[done:]
