"""The history of a key (SCD type 2) in plain Python: the expected table for its changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

Tracked = TypeVar("Tracked")


class Change(NamedTuple, Generic[Tracked]):
    """`place`: in the sequence. `gone`: it removes the row. A new value of `other` starts no row."""

    place: int
    gone: bool
    tracked: Tracked
    other: int


def history_of(changes: Iterable[Change[Tracked]]) -> dict[int, tuple[int | None, Tracked, int]]:
    """The result of one key's changes in sequence: rows by their begin, with their end and their values."""
    rows: dict[int, tuple[int | None, Tracked, int]] = {}
    held: Change[Tracked] | None = None
    begin = 0
    for change in sorted(set(changes)):
        if held is not None and (change.gone or change.tracked != held.tracked):
            rows[begin] = (change.place, held.tracked, held.other)
            held = None
        if not change.gone:
            begin = change.place if held is None else begin
            held = change
    if held is not None:
        rows[begin] = (None, held.tracked, held.other)
    return rows
