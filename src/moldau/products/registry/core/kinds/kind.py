"""The base class of kinds of schemas: canonical form, and compatibility of reader and writer."""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class WholeSchema(msgspec.Struct, frozen=True):
    """A schema with all that it builds on. `references`: names and texts, each behind those that it needs."""

    text: str
    references: tuple[tuple[str, str], ...] = ()


class Kind(msgspec.Struct, frozen=True):
    """`kept`: the text in the form that is kept, so that what means the same has one id. Raises SchemaError.

    `problems(reader, writer)`: why data of the writer cannot be read with the reader's schema; empty: all of it can.
    Raises SchemaError.
    """

    kept: Callable[[WholeSchema], str]
    problems: Callable[[WholeSchema, WholeSchema], list[str]]
