"""The base class of kinds of schemas: canonical form, and compatibility of reader and writer."""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class WholeSchema(msgspec.Struct, frozen=True):
    """A schema with all its references. `references`: names and texts, each after those that it needs."""

    text: str
    references: tuple[tuple[str, str], ...] = ()


class Kind(msgspec.Struct, frozen=True):
    """`kept`: the canonical text, which gives equal schemas one id. Raises SchemaError. `problems(reader, writer)`: why
    the reader's schema cannot read data of the writer; empty if it can read all of it. Raises SchemaError."""

    kept: Callable[[WholeSchema], str]
    problems: Callable[[WholeSchema, WholeSchema], list[str]]
