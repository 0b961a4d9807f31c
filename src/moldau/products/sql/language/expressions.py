"""The tokens of an expression or a query, one after the other, with ksqlDB's spelling rewritten.

Only what a rewrite needs is known of the grammar: groups in brackets, calls and their arguments, and where a primary
expression begins (`a.b->c[1]`). Everything else is copied.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

from moldau.products.sql.language.brackets import check_explodes, closing_brackets
from moldau.products.sql.language.column_types import type_pieces
from moldau.products.sql.language.concatenations import Sum, find_sums
from moldau.products.sql.language.errors import SqlError, error_at, unexpected
from moldau.products.sql.language.functions.row import Call, Function, Refused
from moldau.products.sql.language.functions.row import Kind as FunctionKind
from moldau.products.sql.language.functions.table import FUNCTIONS
from moldau.products.sql.language.pieces import (
    Argument,
    Piece,
    copied,
    filled,
    on_one_line,
    replaced,
    stripped,
    text_of_pieces,
)
from moldau.products.sql.language.times import millisecond_literals
from moldau.products.sql.language.tokens import Kind, Token, source_of, text_of

_WORDS = """
ALL AND ANTI ANY AS ASC BETWEEN BY CASE CHANGES CROSS CUBE DESC DISTINCT DIV ELSE EMIT END ESCAPE EXCEPT EXISTS FINAL
FROM FULL GRACE GROUP GROUPING HAVING ILIKE IN INNER INTERSECT INTERVAL INTO IS JOIN LATERAL LEFT LIKE LIMIT MINUS
NATURAL NOT NULLS OFFSET ON OR ORDER OUTER OVER PARTITION PIVOT QUALIFY RECURSIVE RIGHT RLIKE ROLLUP ROWS SELECT SEMI
SETS SOME SORT TABLESAMPLE THEN UNION UNPIVOT USING VALUES WHEN WHERE WINDOW WITH WITHIN
"""

KEYWORDS = frozenset(_WORDS.split())
"""Words that are no operand. LEFT and RIGHT before a bracket are functions."""

_ENDS_OF_SUMS = KEYWORDS - {"LEFT", "RIGHT"}

_FIRST_LAMBDA = {
    "AGGREGATE": 2,
    "ARRAY_SORT": 1,
    "EXISTS": 1,
    "FILTER": 1,
    "FORALL": 1,
    "MAP_FILTER": 1,
    "MAP_ZIP_WITH": 2,
    "REDUCE": 2,
    "TRANSFORM": 1,
    "TRANSFORM_KEYS": 1,
    "TRANSFORM_VALUES": 1,
    "ZIP_WITH": 2,
}
"""Spark's functions with lambdas (`x -> x + 1`), and the first argument that may be one."""

MAX_CALL = 100_000
"""The most characters of a rewritten call. Templates repeat arguments, and calls are nested."""

_BRIEF = 500
"""The most characters of a text that a list of rewrites shows."""

MAX_CHAIN = 500
"""The most tokens before a `[`, each of which may be written again for it."""

_RENAMED = re.compile(r"(\w+)\((.*)\)")
"""A template that may only rename the function."""

_HINT = "SET 'sql.dialect' = 'ksql' gives it ksqlDB's meaning"


class Expressions:
    """Rewrites the tokens of one text.

    `done`: what was rewritten, as its first token, old text and new text. `told`: tokens, and what the author may have
    meant otherwise.
    """

    def __init__(
        self,
        source: str,
        tokens: Sequence[Token],
        columns: Mapping[str, str],
        types: Mapping[str, str],
        *,
        is_ksql: bool,
    ) -> None:
        self.done: list[tuple[Token, str, str]] = []
        self.told: list[tuple[Token, str]] = []
        self._source = source
        self._tokens = tokens
        self._columns = {name.upper(): column for name, column in columns.items()}
        self._types = {name.lower(): type_ for name, type_ in types.items()}
        self._is_ksql = is_ksql
        self._closing = closing_brackets(source, tokens)
        check_explodes(source, tokens)
        self._literals = millisecond_literals(source, tokens, frozenset(self._columns))

    def rewritten(self, first: int, last: int) -> list[Piece]:
        """The tokens from `first` up to `last`."""
        sums = find_sums(self._tokens, first, last, self._closing, _ENDS_OF_SUMS) if self._is_ksql else {}
        return self._run(first, last, sums)

    def _run(self, first: int, last: int, sums: Mapping[int, Sum], skipped: int = -1) -> list[Piece]:
        """`skipped`: the start of the sum whose operand this is."""
        out: list[Piece] = []
        base: tuple[int, int] | None = None  # where the primary expression begins: in `out`, and its first token
        joined: set[int] = set()
        at = first
        while at < last:
            token = self._tokens[at]
            found = sums.get(at) if at != skipped else None
            if found is not None and not found.joins_texts:
                out.extend(self._concatenation(found, sums))
                at, base = found.end, None
            elif found is not None and not joined.issuperset(found.operators):
                joined.update(found.operators)
            elif base is not None and token.says("->"):
                at = self._field(out, base[1], at, last)
            elif base is not None and token.says("."):
                at = self._qualified(out, at, last)
            elif base is not None and token.says("[") and at in self._closing:
                at = self._subscript(out, base, at)
            elif token.kind is Kind.SYMBOL and not (token.says("(", "[") and at in self._closing):
                out.extend(self._operator(at, joined))
                at, base = at + 1, None
            elif self._is_keyword(at, first):
                out.extend(copied(token))
                self._warn_of_not(at)
                at, base = at + 1, None
                if token.says("AS") and at < last and self._tokens[at].is_name:
                    out.extend(copied(self._tokens[at]))
                    at += 1
            else:
                base = (len(out), at)
                at = self._primary(out, at, last)
        return out

    # --- primary expressions

    def _primary(self, out: list[Piece], at: int, last: int) -> int:
        """Writes the beginning of a primary expression, and gives the place after it."""
        token = self._tokens[at]
        after = self._tokens[at + 1] if at + 1 < last else None
        if at in self._closing:
            return self._group(out, at)
        if token.says("ARRAY") and after is not None and after.says("[") and at + 1 in self._closing:
            return self._array(out, at)
        if token.is_name and after is not None and after.says("("):
            return self._call(out, at)
        if token.kind is Kind.STRING:
            out.extend(self._string(at))
        elif token.kind is Kind.WORD:
            out.extend(self._word(token))
            if token.says("AT") and after is not None and after.says("TIME"):
                raise self._refused(at, "AT TIME ZONE is not known: write CONVERT_TZ(time, 'UTC', zone)")
        else:
            out.extend(copied(token))
        return at + 1

    def _group(self, out: list[Piece], at: int) -> int:
        """Tokens in brackets."""
        end = self._closing[at]
        out.extend([*copied(self._tokens[at]), *self.rewritten(at + 1, end), *copied(self._tokens[end])])
        return end + 1

    def _array(self, out: list[Piece], at: int) -> int:
        """`ARRAY[1, 2]`."""
        end = self._closing[at + 1]
        made = [
            *replaced(self._tokens[at], "array"),
            *replaced(self._tokens[at + 1], "("),
            *self.rewritten(at + 2, end),
            *replaced(self._tokens[end], ")"),
        ]
        out.extend(self._noted(at, end + 1, made))
        return end + 1

    def _word(self, token: Token) -> list[Piece]:
        """A name. ksqlDB's own columns have other names here."""
        column = self._columns.get(token.text.upper())
        if column is None or column == token.text:
            return copied(token)
        self._did(token, token.text, column)
        return replaced(token, column)

    def _string(self, at: int) -> list[Piece]:
        token = self._tokens[at]
        if at in self._literals:
            milliseconds = str(self._literals[at])
            self._did(token, token.text, milliseconds)
            return replaced(token, milliseconds)
        if not self._is_ksql or token.text[0] in "rR":
            return copied(token)
        if token.text[0] == '"':
            made = _name(token.text[1:-1].replace('""', '"'))
        elif "\\" in token.text:
            made = _string(_ksql_value(token))
        else:
            return copied(token)
        self._did(token, token.text, made)
        return replaced(token, made)

    # --- what follows a primary expression

    def _field(self, out: list[Piece], first: int, at: int, last: int) -> int:
        """`a->b`, and `a->*`: a field of a struct."""
        arrow = self._tokens[at]
        field = self._tokens[at + 1] if at + 1 < last else None
        if field is None or not (field.is_name or field.says("*") or field.text[0] == '"'):
            found = field.text if field is not None else ""
            place = field.place if field is not None else arrow.place
            raise unexpected(self._source, place, "a field of the struct, or *", found)
        if self._tokens[first].says("EXPLODE") and self._closing.get(first + 1) == at - 1:
            raise self._refused(
                at, "the rows of EXPLODE have no field here: write EXPLODE(TRANSFORM(list, x => x->field))"
            )
        if field.says("*") and not all(one.is_name or one.says(".", "->") for one in self._tokens[first:at]):
            raise self._refused(at, "->* takes a column: name the struct in a query before, or list its fields")
        is_plain = field.says("*") or field.kind is Kind.NAME or (field.is_name and not field.text[0].isdigit())
        written = field.text if is_plain else _name(field.text[1:-1] if field.text[0] == '"' else field.text)
        for token, text in ((arrow, "."), (field, written)):
            out.extend(_tight(token, text))
        self._did(arrow, f"->{field.text}", f".{written}")
        return at + 2

    def _qualified(self, out: list[Piece], at: int, last: int) -> int:
        """`s.ROWTIME`, `s.*`."""
        out.extend(copied(self._tokens[at]))
        if at + 1 < last and self._tokens[at + 1].kind is Kind.WORD and not self._opens(at + 2):
            out.extend(self._word(self._tokens[at + 1]))
            return at + 2
        if at + 1 < last and not self._tokens[at + 1].says("("):
            out.extend(copied(self._tokens[at + 1]))
            return at + 2
        return at + 1

    def _subscript(self, out: list[Piece], base: tuple[int, int], at: int) -> int:
        """`a[1]`: ksqlDB counts from 1 and from the end, Spark from 0. A missing element is null."""
        end = self._closing[at]
        inner = self._tokens[at + 1 : end]
        index = _whole_number(inner)
        is_own = index is not None and index < 0
        if not self._is_ksql and not is_own:
            if index is not None:
                self.told.append((inner[0], f"[{index}] counts from 0, in ksqlDB from 1: {_HINT}"))
            self._group(out, at)
            return end + 1
        start, first = base
        if at - first > MAX_CHAIN:
            raise self._refused(
                at, f"more than {MAX_CHAIN} words stand before this bracket: name a part of them before"
            )
        lead = out[start : start + 1] if out[start].is_blank else []
        element = [Piece("CAST(NULL AS INT)", inner[0].offset)] if index == 0 else self.rewritten(at + 1, end)
        arguments = [Argument(tuple(out[start + len(lead) :])), Argument(tuple(element))]
        made = self._laid(first, end + 1, filled("try_element_at(@0, @1)", arguments, self._tokens[first].offset))
        self._did(self._tokens[first], text_of(self._tokens[first : end + 1]), _shown(made))
        out[start:] = [*lead, *made]
        return end + 1

    def _operator(self, at: int, joined: set[int]) -> list[Piece]:
        token = self._tokens[at]
        if at in joined and token.says("+"):
            self._did(token, "+", "||")
            return replaced(token, "||")
        if self._is_ksql and token.says("/") and not any("." in one.text for one in self._tokens[at - 1 : at + 2]):
            self.told.append(
                (token, "/ gives fractions, in ksqlDB whole numbers divide to a whole number: write a DIV b")
            )
        return copied(token)

    def _warn_of_not(self, at: int) -> None:
        """`NOT a = b`, in ksqlDB true for a null."""
        if not self._is_ksql or not self._tokens[at].says("NOT") or (at and self._tokens[at - 1].says("IS")):
            return
        after = self._tokens[at + 1] if at + 1 < len(self._tokens) else None
        if after is not None and not after.says("IN", "LIKE", "BETWEEN", "NULL", "EXISTS"):
            message = "NOT of a comparison with null is null, in ksqlDB it is true: write IS DISTINCT FROM"
            self.told.append((self._tokens[at], message))

    def _concatenation(self, found: Sum, sums: Mapping[int, Sum]) -> list[Piece]:
        """`a || b` leaves nulls out in ksqlDB."""
        edges = (found.start - 1, *found.operators, found.end)
        parts = [
            Argument(tuple(self._run(left + 1, right, sums, found.start))) for left, right in itertools.pairwise(edges)
        ]
        first = self._tokens[found.start]
        made = filled("concat_ws('', @*)", parts, first.offset)
        return self._noted(found.start, found.end, [*copied(first)[:-1], *self._laid(found.start, found.end, made)])

    # --- calls

    def _call(self, out: list[Piece], at: int) -> int:
        """`name(...)`."""
        end = self._closing[at + 1]
        name = self._tokens[at].text.upper() if self._tokens[at].kind is Kind.WORD else ""
        arguments = self._split(at + 2, end)
        if name in ("CAST", "TRY_CAST"):
            out.extend(self._cast(at, end))
        elif name in ("STRUCT", "MAP") and any(self._assigned(one) is not None for one in arguments):
            out.extend(self._constructed(name, at, end, arguments))
        else:
            out.extend(self._function(name, at, end, arguments))
        return end + 1

    def _function(self, name: str, at: int, end: int, arguments: Sequence[tuple[int, int]]) -> list[Piece]:
        row = FUNCTIONS.get(name)
        token = self._tokens[at]
        arrows = [self._arrow(one, "=>") for one in arguments]
        if row is not None and not row.is_same:
            call = self._known(name, arguments, arrows)
            if self._is_rewritten(row, call) and not self._is_sparks_form(at, end, arguments):
                return self._replaced_call(row, call, at, end, arguments, arrows)
            if row.differs and not self._is_ksql:
                self.told.append((token, f"{name} is Spark's: {row.differs}. {_HINT}"))
        out = [*copied(token), *copied(self._tokens[at + 1])]
        lambdas = _FIRST_LAMBDA.get(name, len(arguments))
        for place, one in enumerate(arguments):
            if place:
                out.extend(copied(self._tokens[one[0] - 1]))
            arrow = self._arrow(one, "->") if place >= lambdas else None
            if arrow is None:
                out.extend(self.rewritten(*one))
            else:
                for kept in self._tokens[one[0] : arrow + 1]:
                    out.extend(copied(kept))
                out.extend(self.rewritten(arrow + 1, one[1]))
        return [*out, *copied(self._tokens[end])]

    def _is_rewritten(self, row: Function, call: Call) -> bool:
        if row.kind is FunctionKind.LAMBDA and not any(call.lambdas):
            return False  # with Spark's arrows, it is Spark's
        return self._is_ksql or not row.in_spark or (row.own is not None and row.own(call))

    def _is_sparks_form(self, at: int, end: int, arguments: Sequence[tuple[int, int]]) -> bool:
        """A form that ksqlDB does not have: `trim(BOTH 'x' FROM y)`, `sum(DISTINCT x)`, `sum(x) OVER w`."""
        after = self._tokens[end + 1] if end + 1 < len(self._tokens) else None
        if after is not None and after.says("OVER", "FILTER"):
            return True
        if arguments and self._tokens[at + 2].says("DISTINCT", "ALL"):
            return True
        place = at + 2
        while place < end:
            if self._tokens[place].says("FROM") and not self._tokens[place - 1].says("DISTINCT"):
                return True
            place = self._closing.get(place, place) + 1
        return False

    def _replaced_call(
        self,
        row: Function,
        call: Call,
        at: int,
        end: int,
        arguments: Sequence[tuple[int, int]],
        arrows: Sequence[int | None],
    ) -> list[Piece]:
        token = self._tokens[at]
        try:
            template = row.template(call)
        except Refused as refused:
            raise self._refused(at, str(refused)) from refused
        renamed = None if any(call.lambdas) else _RENAMED.fullmatch(template)
        if renamed is not None and renamed[2] in ("@*", ", ".join(f"@{place}" for place in range(call.count))):
            inner = self.rewritten(at + 2, end)
            layout = [*copied(self._tokens[at + 1]), *inner, *copied(self._tokens[end])]
            if renamed[1] == row.name.lower():
                return [*copied(token), *layout]
            return self._noted(at, end + 1, [*replaced(token, renamed[1]), *layout])
        written = [self._argument(one, arrow) for one, arrow in zip(arguments, arrows, strict=True)]
        made = self._laid(at, end + 1, filled(template, written, token.offset))
        if sum(len(piece.text) for piece in made) > MAX_CALL:
            raise self._refused(at, f"{row.name} has more than {MAX_CALL} characters in Spark SQL: nest fewer calls")
        return self._noted(at, end + 1, [*copied(token)[:-1], *made])

    def _argument(self, one: tuple[int, int], arrow: int | None) -> Argument:
        first, last = one
        if arrow is None:
            return Argument(tuple(self.rewritten(first, last)), self._is_primary(first, last))
        names = tuple(token.text for token in self._tokens[first:arrow] if token.is_name)
        return Argument(tuple(self.rewritten(arrow + 1, last)), parameters=names)

    def _cast(self, at: int, end: int) -> list[Piece]:
        """`CAST(x AS type)`. In ksqlDB, what cannot be cast is null."""
        split = next((place for place in range(end - 1, at, -1) if self._tokens[place].says("AS")), None)
        name = self._tokens[at]
        if split is None:
            raise unexpected(self._source, self._tokens[end].place, "AS and a type", self._tokens[end].text)
        written = "try_cast" if self._is_ksql and name.says("CAST") else name.text
        named = self._tokens[split + 1 : end]
        types = type_pieces(named, self._types)
        made = [
            *replaced(name, written),
            *copied(self._tokens[at + 1]),
            *self.rewritten(at + 2, split),
            *copied(self._tokens[split]),
            *types,
            *copied(self._tokens[end]),
        ]
        is_changed = written != name.text or text_of_pieces(types) != source_of(named)
        return self._noted(at, end + 1, made) if is_changed else made

    def _constructed(self, name: str, at: int, end: int, arguments: Sequence[tuple[int, int]]) -> list[Piece]:
        """`STRUCT(x := 1)`, `MAP('a' := 1)`."""
        made = [
            *replaced(self._tokens[at], "named_struct" if name == "STRUCT" else "map"),
            *copied(self._tokens[at + 1]),
        ]
        for place, one in enumerate(arguments):
            sign = self._assigned(one)
            if sign is None:
                found = self._tokens[one[1]]
                raise unexpected(self._source, found.place, "`:=` and a value", found.text)
            if place:
                made.extend(copied(self._tokens[one[0] - 1]))
            if name == "STRUCT":
                field = self._tokens[one[0]]
                if sign != one[0] + 1 or not (field.is_name or field.text[0] == '"'):
                    raise unexpected(self._source, field.place, "the name of a field", field.text)
                made.extend(replaced(field, _string(field.value)))
            else:
                made.extend(self.rewritten(one[0], sign))
            made.extend([*_tight(self._tokens[sign], ","), *self.rewritten(sign + 1, one[1])])
        return self._noted(at, end + 1, [*made, *copied(self._tokens[end])])

    # --- what stands where

    def _known(self, name: str, arguments: Sequence[tuple[int, int]], arrows: Sequence[int | None]) -> Call:
        read = [self._tokens[first:last] for first, last in arguments]
        return Call(
            name,
            tuple(self._text(one) for one in read),
            tuple(_whole_number(one) for one in read),
            tuple(one[0].text.upper() if len(one) == 1 and one[0].kind is Kind.WORD else "" for one in read),
            tuple(
                0 if arrow is None else sum(token.is_name for token in self._tokens[first:arrow])
                for (first, _), arrow in zip(arguments, arrows, strict=True)
            ),
            self._columns,
        )

    def _text(self, tokens: Sequence[Token]) -> str | None:
        if len(tokens) != 1 or tokens[0].kind is not Kind.STRING:
            return None
        token = tokens[0]
        if not self._is_ksql or token.text[0] in "rR":
            return token.value
        return _ksql_value(token) if token.text[0] == "'" else None

    def _split(self, first: int, last: int) -> list[tuple[int, int]]:
        """The arguments between two brackets."""
        if first == last:
            return []
        edges, at = [first - 1], first
        while at < last:
            if self._tokens[at].says(","):
                edges.append(at)
            at = self._closing.get(at, at) + 1
        edges.append(last)
        return [(left + 1, right) for left, right in itertools.pairwise(edges)]

    def _arrow(self, one: tuple[int, int], sign: str) -> int | None:
        """The place of the arrow if the argument is a lambda: `x => ...`, `(k, v) => ...`."""
        first, last = one
        if first >= last:
            return None
        after = self._closing[first] + 1 if self._tokens[first].says("(") else first + 1
        names = self._tokens[first:after]
        is_names = names[0].says("(") or names[0].is_name
        return after if is_names and after < last and self._tokens[after].says(sign) else None

    def _assigned(self, one: tuple[int, int]) -> int | None:
        """The place of `:=` in an argument."""
        at, last = one
        while at < last:
            if self._tokens[at].says(":="):
                return at
            at = self._closing.get(at, at) + 1
        return None

    def _is_primary(self, first: int, last: int) -> bool:
        """Whether an argument needs no parentheses next to an operator."""
        read = self._tokens[first:last]
        if all(one.is_name or one.says(".", "->") or one.kind in (Kind.NUMBER, Kind.STRING) for one in read):
            return not any(one.says(*KEYWORDS) for one in read)
        opens = first + 1 if last - first > 1 and read[0].is_name else first
        return self._closing.get(opens) == last - 1 and self._tokens[opens].says("(")

    def _is_keyword(self, at: int, first: int) -> bool:
        token = self._tokens[at]
        if token.says("FILTER") and self._opens(at + 1):  # after an aggregate it is a clause
            return at > first and self._tokens[at - 1].says(")")
        if token.says("LEFT", "RIGHT", "GROUPING", "EXISTS") and self._opens(at + 1):
            return False
        return token.says(*KEYWORDS)

    def _opens(self, at: int) -> bool:
        return at < len(self._tokens) and self._tokens[at].says("(")

    def _laid(self, first: int, last: int, made: list[Piece]) -> list[Piece]:
        """A rewritten call, and the line ends that its tokens had."""
        written = text_of(self._tokens[first:last]).count("\n") - sum(piece.text.count("\n") for piece in made)
        return [*made, Piece("\n" * written, self._tokens[last - 1].offset, is_blank=True)] if written > 0 else made

    def _noted(self, first: int, last: int, made: list[Piece]) -> list[Piece]:
        tokens = self._tokens[first:last]
        self._did(tokens[0], text_of(tokens), _shown(made))
        return made

    def _did(self, token: Token, was: str, now: str) -> None:
        self.done.append((token, _brief(was), _brief(now)))

    def _refused(self, at: int, problem: str) -> SqlError:
        return error_at(self._source, self._tokens[at].place, problem, found=self._tokens[at].text)


def _brief(text: str) -> str:
    return text if len(text) <= _BRIEF else f"{text[: _BRIEF - 3]}..."


def _tight(token: Token, text: str) -> list[Piece]:
    """Another text in the token's place, without the blanks before it unless a line ends there."""
    return replaced(token, text) if "\n" in token.before else [Piece(text, token.offset)]


def _whole_number(tokens: Sequence[Token]) -> int | None:
    sign = -1 if len(tokens) == 2 and tokens[0].says("-") else 1
    if not tokens or len(tokens) > 2 or (len(tokens) == 2 and sign == 1) or not tokens[-1].text.isdecimal():
        return None
    return sign * int(tokens[-1].text) if tokens[-1].text.isascii() else None


def _ksql_value(token: Token) -> str:
    """A string as ksqlDB reads it: a backslash is a character."""
    return token.text[1:-1].replace("''", "'")


def _string(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


def _name(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _shown(pieces: Sequence[Piece]) -> str:
    return text_of_pieces(on_one_line(stripped(pieces)))
