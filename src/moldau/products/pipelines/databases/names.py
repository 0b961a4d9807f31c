"""Names in the SQL of databases."""

from __future__ import annotations

from collections.abc import Sequence


def quoted(name: str) -> str:
    """`name` as an identifier."""
    return '"' + name.replace('"', '""') + '"'


def listed(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def path_of(names: Sequence[str]) -> str:
    """A table's name, after its schema if it has one."""
    return ".".join(map(quoted, names))
