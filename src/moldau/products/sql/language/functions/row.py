"""A row of the table of functions: one function of ksqlDB, and the Spark SQL that means the same."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping

import msgspec


class Kind(enum.Enum):
    SCALAR = "scalar"
    AGGREGATE = "aggregate"
    TABLE = "table"
    LAMBDA = "lambda"


class Refused(ValueError):
    """A call has no twin in Spark SQL. The message says what to write instead."""


class Call(msgspec.Struct, frozen=True):
    """What a row may know of a call; each tuple has one value for each argument.

    `texts`, `numbers`: the value of an argument that is one string or one whole number (-2 too), else None. `words`:
    an argument that is one word, in upper case, else "". `lambdas`: the number of a lambda's parameters, 0 for any
    other argument. `columns`: the columns that hold ROWOFFSET, ROWPARTITION and so on.
    """

    name: str
    texts: tuple[str | None, ...]
    numbers: tuple[int | None, ...]
    words: tuple[str, ...]
    lambdas: tuple[int, ...]
    columns: Mapping[str, str]

    @property
    def count(self) -> int:
        return len(self.texts)


Template = str
"""Spark SQL in which `@0` stands for the first argument, `@*` for all, `@1*` for those from the second on, `@2.body`
for the body of a lambda, `@2.first` for its first parameter and `@2.rest` for the others.

A template is a primary expression (a call, CASE, or in parentheses). An argument next to an operator is put in
parentheses. Its own lambdas name their variables `_e`, `_i`: an argument's own names stay visible there."""


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """One function of ksqlDB.

    `examples`: calls with speaking names, one for each number of arguments; the reference page shows what they become.
    `forms`: the template for each number of arguments. `build`: chooses the template, for rows whose template depends
    on literals; `least` and `most` arguments are then given. A row with neither means the same in Spark, under the same
    name. `in_spark`: Spark SQL has a function of this name; `differs` then says what it does otherwise, as the end of
    "in Spark, ...". `own`: tells whether a call of such a name can only be ksqlDB's. `note`: what stays different.
    """

    name: str
    kind: Kind = Kind.SCALAR
    examples: tuple[str, ...]
    forms: Mapping[int, Template] = {}
    build: Callable[[Call], Template] | None = None
    least: int = 0
    most: int = 0
    in_spark: bool = False
    differs: str = ""
    own: Callable[[Call], bool] | None = None
    note: str = ""

    @property
    def is_same(self) -> bool:
        """Whether Spark SQL has it, under this name and with this meaning."""
        return not self.forms and self.build is None

    def template(self, call: Call) -> Template:
        """What the call becomes. Raises Refused."""
        counts = sorted(self.forms) or [*range(self.least, self.most + 1)]
        if call.count not in counts:
            spoken = " or ".join(str(count) for count in counts) if len(counts) < 4 else f"{counts[0]} or more"
            raise Refused(f"{self.name} takes {spoken} arguments and has {call.count}")
        return self.forms[call.count] if self.build is None else self.build(call)


MANY = 255
"""The most arguments of a function that takes any number."""


def same(name: str, *examples: str, kind: Kind = Kind.SCALAR, note: str = "") -> Function:
    """A function that Spark SQL has too."""
    return Function(name=name, kind=kind, examples=examples, in_spark=True, note=note)
