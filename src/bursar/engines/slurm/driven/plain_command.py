"""Scripts that are one plain command, such as ``python train.py --epochs 3``. Pure.

They need no shell of their own: the one that starts them can start the command itself. Then a stop reaches
the program alone, its exit code is the job's, and a node has one process less for each job.
"""

from __future__ import annotations

import re

KNOWN_SHELLS = frozenset({"/bin/bash", "/usr/bin/bash", "/bin/sh", "/usr/bin/sh"})
"""In all of them such a line means the same."""

_PLAIN = re.compile(r"[A-Za-z0-9_./][\w./:@+,-]*(?: +[\w./:@%+,=-]+)*", re.ASCII)
"""Words that no shell changes."""
_OF_THE_SHELL = re.compile(
    r"\.|:|alias|bg|bind|break|builtin|caller|case|cd|command|compgen|complete|compopt|continue|coproc|declare"
    r"|dirs|disown|do|done|elif|else|enable|esac|eval|exec|exit|export|fc|fg|fi|for|function|getopts|hash|help"
    r"|history|if|in|jobs|kill|let|local|logout|mapfile|popd|pushd|pwd|read|readarray|readonly|return|select"
    r"|set|shift|shopt|source|suspend|test|then|time|times|trap|type|typeset|ulimit|umask|unalias|unset|until"
    r"|wait|while"
)
"""What a shell does itself, and may do otherwise in the midst of another script. ``echo``, ``printf``,
``true`` and ``false`` are the same everywhere."""


def plain_command(script: str, shell: str) -> tuple[str, ...]:
    """The words of a script that is one plain command; none when it is anything else."""
    line = script.strip(" \n")
    if shell not in KNOWN_SHELLS or not _PLAIN.fullmatch(line):
        return ()
    words = tuple(line.split())
    return () if _OF_THE_SHELL.fullmatch(words[0]) else words
