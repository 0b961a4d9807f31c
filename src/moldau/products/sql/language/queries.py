"""A query as a value: its clauses. Expressions are Spark's and stay text with places."""

from __future__ import annotations

import enum

import msgspec

from moldau.products.sql.language.errors import SqlError
from moldau.products.sql.language.tokens import Token, text_of


class Name(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A name as written, without backquotes. Upper and lower case are one. `line` and `column`: from 1."""

    text: str
    line: int
    column: int

    @property
    def key(self) -> str:
        """The name for comparisons."""
        return self.text.lower()

    @property
    def place(self) -> tuple[int, int]:
        """Line and column."""
        return self.line, self.column


def error_of(name: Name, problem: str, near: str | None = None) -> SqlError:
    """An error at a name. `near`: the one that was probably meant."""
    return SqlError(problem, line=name.line, column=name.column, found=name.text, nearest=near)


class Fragment(msgspec.Struct, frozen=True):
    """A part of a statement that is not taken apart, such as an expression."""

    tokens: tuple[Token, ...]

    @property
    def text(self) -> str:
        """As written, with the blanks and comments within."""
        return text_of(self.tokens)


class Unit(enum.IntEnum):
    """A unit of time, in milliseconds."""

    MILLISECOND = 1
    SECOND = 1_000
    MINUTE = 60_000
    HOUR = 3_600_000
    DAY = 86_400_000


class Duration(msgspec.Struct, frozen=True):
    """`10 MINUTES`."""

    amount: int
    unit: Unit

    @property
    def milliseconds(self) -> int:
        return self.amount * self.unit


class WindowKind(enum.Enum):
    TUMBLING = "tumbling"
    HOPPING = "hopping"
    SESSION = "session"


class Window(msgspec.Struct, frozen=True):
    """`WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 5 MINUTES, GRACE PERIOD 10 MINUTES)`.

    `size`: the length of a window; of a session, the gap that ends it. `advance`: of a hopping window only. `grace`:
    how long after its end a window takes late rows. `retention`: how long a window is kept. None: not given.
    """

    kind: WindowKind
    size: Duration
    advance: Duration | None
    retention: Duration | None
    grace: Duration | None
    line: int
    column: int


class JoinKind(enum.Enum):
    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"


class Within(msgspec.Struct, frozen=True):
    """`WITHIN (before, after) GRACE PERIOD grace`: how much earlier and later than a row of the left side a row of the
    right side may be."""

    before: Duration
    after: Duration
    grace: Duration | None


class Relation(msgspec.Struct, frozen=True):
    """What FROM or JOIN names.

    `name`: a stream, table or view; None for a subquery, a function of rows or a name of several parts. `source`: as
    written, without the alias. `is_stream`: it stands in Spark's `STREAM name` or `STREAM(name)`.
    """

    name: Name | None
    source: Fragment
    alias: Name | None
    is_stream: bool

    @property
    def called(self) -> Name | None:
        """The name that its columns are qualified with."""
        return self.alias or self.name


class Join(msgspec.Struct, frozen=True):
    """`LEFT JOIN relation WITHIN 1 HOUR ON expression`. `within`: None where a table takes part."""

    kind: JoinKind
    relation: Relation
    within: Within | None
    on: Fragment
    line: int
    column: int


class Item(msgspec.Struct, frozen=True):
    """One item of SELECT: an expression, `*` or `name.*`."""

    expression: Fragment
    alias: Name | None


class Select(msgspec.Struct, frozen=True):
    """One SELECT with its clauses; a clause that is absent is None or ()."""

    is_distinct: bool
    items: tuple[Item, ...]
    relation: Relation | None
    joins: tuple[Join, ...]
    window: Window | None
    where: Fragment | None
    group_by: tuple[Fragment, ...]
    partition_by: tuple[Fragment, ...]
    having: Fragment | None


class Emit(enum.Enum):
    """CHANGES: each change of a row at once. FINAL: a window's row after the window and its grace."""

    CHANGES = "changes"
    FINAL = "final"


class Query(msgspec.Struct, frozen=True):
    """A query.

    `source`: the query as written, without EMIT. `definitions`: `WITH a AS (...)`, or None. `selects`: the parts of
    UNION ALL; () if the query has a clause that only Spark reads (ORDER BY, UNION, LATERAL VIEW...) and none of ours,
    so that `source` goes to Spark as it stands. `limit`: the rows after which the query ends.
    """

    source: Fragment
    definitions: Fragment | None
    selects: tuple[Select, ...]
    emit: Emit | None
    limit: int | None
