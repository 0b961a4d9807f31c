"""Reads a query into its clauses."""

from __future__ import annotations

from moldau.products.sql.language.parser.clauses import (
    KEYWORDS,
    Clause,
    clause_at,
    has_alias,
    misspelt,
    own_within_brackets,
    starts_query,
)
from moldau.products.sql.language.parser.cursor import Cursor
from moldau.products.sql.language.parser.relations import (
    check_spelling,
    is_relations_tail,
    is_sparks_join,
    joins_at,
    read_join,
    read_relation,
)
from moldau.products.sql.language.parser.windows import read_window
from moldau.products.sql.language.queries import Emit, Fragment, Item, Join, Name, Query, Relation, Select, Window
from moldau.products.sql.language.tokens import Kind, Token

_ORDER = {Clause.WINDOW: 0, Clause.WHERE: 0, Clause.GROUP: 1, Clause.PARTITION: 2, Clause.HAVING: 3}
"""The order of clauses after FROM; WINDOW and WHERE may change places."""


def read_query(cursor: Cursor) -> Query:
    """Takes a query, which goes to the end of the statement. Raises SqlError."""
    if not starts_query(cursor):
        raise cursor.unexpected("a query, which begins with SELECT, WITH or FROM", ["SELECT", "WITH", "FROM"])
    start = cursor.place
    query = _Reader(cursor).query()
    inner = own_within_brackets(cursor.since(start))
    if inner is not None:
        raise cursor.error(
            f"`{inner.text}` does not stand within brackets, where only Spark reads: create a stream or a view with "
            "the inner query",
            at=inner,
        )
    return query


class _Reader:
    """Reads one query. `_sparks`: the first token that only Spark reads; from there nothing is taken apart. `_own`: the
    first clause that Spark cannot read."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._sparks: Token | None = None
        self._own: str | None = None

    def query(self) -> Query:
        cursor = self._cursor
        start = cursor.place
        definitions = self._definitions() if cursor.says("WITH") else None
        selects: list[Select] = []
        is_open = True
        while is_open and cursor.takes("SELECT"):
            selects.append(self._select())
            is_open = cursor.takes("UNION", "ALL")
        if is_open:
            # FROM first, or a query in parentheses
            if not starts_query(cursor) and not cursor.next.says("VALUES", "TABLE"):
                raise cursor.unexpected("SELECT", ["SELECT"])
            self._leave_to_spark()
        tokens = cursor.since(start).tokens
        emit, limit = self._end()
        if self._sparks is None:
            return Query(Fragment(tokens), definitions, tuple(selects), emit, limit)
        return Query(Fragment(tokens), None, (), emit, limit)

    def _definitions(self) -> Fragment:
        """Takes `WITH name (columns) AS (query), ...`."""
        cursor = self._cursor
        start = cursor.place
        cursor.expect("WITH")
        if cursor.says("RECURSIVE") and cursor.ahead(1).is_name and not cursor.ahead(1).says("AS"):
            cursor.take()
        while True:
            cursor.name("the name of a query")
            if cursor.says("("):
                cursor.skip_brackets()
            cursor.expect("AS")
            if not cursor.says("("):
                raise cursor.unexpected("a query in parentheses")
            cursor.skip_brackets()
            if not cursor.takes(","):
                return cursor.since(start)

    def _select(self) -> Select:
        """Takes what follows SELECT, up to EMIT, LIMIT, UNION ALL or the end."""
        cursor = self._cursor
        is_distinct = cursor.takes("DISTINCT")
        if cursor.says("ALL") and not cursor.ahead(1).says(",", "(", ".", "FROM"):
            cursor.take()
        start = cursor.place
        items = self._items()
        relation: Relation | None = None
        joins: tuple[Join, ...] = ()
        if cursor.takes("FROM"):
            relation, joins = self._relations()
        else:
            self._check_from(cursor.since(start))
        window, parts, lists = self._clauses()
        return Select(
            is_distinct,
            items,
            relation,
            joins,
            window,
            parts.get(Clause.WHERE),
            lists.get(Clause.GROUP, ()),
            lists.get(Clause.PARTITION, ()),
            parts.get(Clause.HAVING),
        )

    def _items(self) -> tuple[Item, ...]:
        cursor = self._cursor
        found = []
        while True:
            part = cursor.skip_to(
                lambda: cursor.says(",") or clause_at(cursor) is not None, "an expression, `*` or `name.*`"
            )
            found.append(_item(part))
            if not cursor.takes(","):
                return tuple(found)

    def _check_from(self, items: Fragment) -> None:
        """Raises if FROM is misspelt, and so was read as a part of the items."""
        wrong = misspelt(items, ["FROM"])
        if wrong is not None:
            raise self._cursor.unexpected("FROM", ["FROM"], at=wrong[0])

    def _relations(self) -> tuple[Relation | None, tuple[Join, ...]]:
        cursor = self._cursor
        if cursor.says("VALUES"):
            self._leave_to_spark()
            return None, ()
        relation = read_relation(cursor)
        joins: list[Join] = []
        while joins_at(cursor) and not is_sparks_join(cursor):
            start = cursor.next
            join = read_join(cursor)
            if join is None:
                self._leave_to_spark(start)
                break
            joins.append(join)
            if join.within is not None:
                self._own = self._own or "WITHIN"
        return relation, tuple(joins)

    def _clauses(self) -> tuple[Window | None, dict[Clause, Fragment], dict[Clause, tuple[Fragment, ...]]]:
        """Takes the clauses after FROM: the window, those with one expression, and those with several."""
        cursor = self._cursor
        window: Window | None = None
        parts: dict[Clause, Fragment] = {}
        lists: dict[Clause, tuple[Fragment, ...]] = {}
        seen: list[Clause] = []
        while self._sparks is None:
            clause = clause_at(cursor)
            if clause is Clause.FROM or clause not in _ORDER:
                break
            self._check_order(clause, seen)
            seen.append(clause)
            if clause is Clause.WINDOW:
                self._own = self._own or "WINDOW"
                window = read_window(cursor)
            elif clause in (Clause.WHERE, Clause.HAVING):
                cursor.take()
                parts[clause] = self._expression(f"the condition of {clause.value}")
            else:
                cursor.take()
                cursor.expect("BY")
                if clause is Clause.PARTITION:
                    self._own = self._own or clause.value
                lists[clause] = self._list(f"an expression after {clause.value}")
        if self._sparks is None and cursor.next.kind is not Kind.END and not self._goes_on():
            self._leave_to_spark()
        return window, parts, lists

    def _goes_on(self) -> bool:
        """Whether the query goes on after this SELECT with what is read here. Raises for what nobody reads."""
        cursor = self._cursor
        clause = clause_at(cursor)
        if clause is Clause.SPARKS or is_sparks_join(cursor) or is_relations_tail(cursor):
            return False
        if clause in (Clause.EMIT, Clause.LIMIT, Clause.UNION_ALL):
            return True
        raise cursor.unexpected("a clause, as in WHERE, or the end of the statement", KEYWORDS)

    def _check_order(self, clause: Clause, seen: list[Clause]) -> None:
        if clause in seen:
            raise self._cursor.error(f"{clause.value} stands twice in this query")
        later = [one for one in seen if _ORDER[one] > _ORDER[clause]]
        if later:
            raise self._cursor.error(f"{clause.value} stands before {later[0].value}, not after it")

    def _expression(self, what: str) -> Fragment:
        cursor = self._cursor
        found = cursor.skip_to(lambda: clause_at(cursor) is not None or joins_at(cursor), what)
        check_spelling(cursor, found)
        return found

    def _list(self, what: str) -> tuple[Fragment, ...]:
        """Expressions with commas between them; parentheses around all of them mean nothing."""
        cursor = self._cursor
        found = []
        while True:
            part = cursor.skip_to(lambda: cursor.says(",") or clause_at(cursor) is not None, what)
            check_spelling(cursor, part)
            found.append(part)
            if not cursor.takes(","):
                break
        return _unwrapped(found[0]) if len(found) == 1 else tuple(found)

    def _leave_to_spark(self, token: Token | None = None) -> None:
        """Skips what only Spark reads, from the next token on. `token`: where it begins."""
        cursor = self._cursor
        self._sparks = token or cursor.next
        cursor.skip_to(self._ends_sparks, "a query", may_be_empty=token is not None)
        if self._own is not None:
            raise cursor.error(
                f"`{self._sparks.text}` does not stand in a query with {self._own}: only Spark reads the former, and "
                "it cannot read the latter",
                at=self._sparks,
            )

    def _ends_sparks(self) -> bool:
        cursor = self._cursor
        clause = clause_at(cursor)
        if clause in (Clause.WINDOW, Clause.PARTITION):
            self._own = self._own or clause.value
        elif cursor.says("WITHIN") and (cursor.ahead(1).kind is Kind.NUMBER or cursor.ahead(1).says("(")):
            self._own = self._own or "WITHIN"
        return clause is Clause.EMIT

    def _end(self) -> tuple[Emit | None, int | None]:
        """Takes EMIT and LIMIT, in any order, and expects the end."""
        cursor = self._cursor
        emit: Emit | None = None
        limit: int | None = None
        while True:
            if emit is None and cursor.takes("EMIT"):
                emit = Emit[cursor.expect_one(one.name for one in Emit)]
            elif limit is None and cursor.takes("LIMIT"):
                limit = cursor.whole_number("the number of rows")
            else:
                break
        if cursor.says("UNION") and (emit is not None or limit is not None):
            raise cursor.error("EMIT and LIMIT stand once, after the last part of UNION ALL")
        cursor.expect_end()
        return emit, limit


def _item(part: Fragment) -> Item:
    """An item of SELECT, with its alias taken off."""
    tokens = part.tokens
    last = tokens[-1]
    # Spark takes no string there, so `"a b"` can only be a name
    if len(tokens) > 2 and tokens[-2].says("AS") and (last.is_name or last.text.startswith('"')):
        return Item(Fragment(tokens[:-2]), Name(last.value, last.line, last.column))
    if has_alias(tokens):
        return Item(Fragment(tokens[:-1]), Name(last.value, last.line, last.column))
    return Item(part, None)


def _unwrapped(part: Fragment) -> tuple[Fragment, ...]:
    """`(a, b)` as `a` and `b`; anything else as it is."""
    tokens = part.tokens
    depth, start = 0, 1
    found = []
    for place, token in enumerate(tokens):
        depth += token.says("(", "[")
        if depth == 0:
            return (part,)
        depth -= token.says(")", "]")
        if depth == 0 and place < len(tokens) - 1:
            return (part,)
        if depth == (token is not tokens[-1]) and (token.says(",") or depth == 0):
            found.append(Fragment(tokens[start:place]))
            start = place + 1
    return tuple(found) if all(one.tokens for one in found) else (part,)
