"""Matches file names: `*`, `?` and `[...]` within a name, `{a,b}` for alternatives.

On disk, Spark matches the files (`org.apache.hadoop.fs.GlobPattern`); in an object store, this module does, by the same
rules.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from itertools import takewhile

_LETTERS = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{([^{}]*)\}")


def is_pattern(text: str) -> bool:
    return _LETTERS.search(text) is not None


def split_pattern(pattern: str) -> tuple[str, str]:
    """The folder that contains all of the pattern's files, without a trailing slash (callers use its length), and the
    pattern of their names below it: `*` if the pattern is the folder itself."""
    parts = pattern.split("/")
    plain = list(takewhile(lambda part: not is_pattern(part), parts))
    return "/".join(plain).rstrip("/"), "/".join(parts[len(plain) :]) or "*"


def python_patterns(pattern: str) -> list[str]:
    """The equivalent patterns for `glob` and `fnmatch`: without braces, and with `[!` for `[^`."""
    braces = _BRACES.search(pattern)
    if braces is None:
        return [pattern.replace("[^", "[!")]
    before, behind = pattern[: braces.start()], pattern[braces.end() :]
    return [one for text in braces[1].split(",") for one in python_patterns(f"{before}{text}{behind}")]


def is_match(file: str, pattern: str) -> bool:
    folder, names = split_pattern(pattern)
    return file.startswith(f"{folder}/") and fits(file[len(folder) + 1 :], names)


def fits(name: str, pattern: str) -> bool:
    """`name`: with slashes, as `pattern`. As in Spark, `*` matches neither a slash nor a hidden file."""
    return any(_fits(name.split("/"), one.split("/")) for one in python_patterns(pattern))


def _fits(names: list[str], patterns: list[str]) -> bool:
    return len(names) == len(patterns) and all(
        fnmatchcase(one, wanted) and (one[:1] not in ("_", ".") or wanted[:1] == one[:1])
        for one, wanted in zip(names, patterns, strict=True)
    )
