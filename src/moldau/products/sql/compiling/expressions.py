"""Expressions as Spark SQL, and what they are as far as their tokens tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from moldau.products.pipelines.core.statement import quoted
from moldau.products.sql.compiling.scope import OWN_COLUMNS, Scope
from moldau.products.sql.language.errors import SqlError, error_at
from moldau.products.sql.language.functions.row import Kind as FunctionKind
from moldau.products.sql.language.functions.table import FUNCTIONS
from moldau.products.sql.language.queries import Fragment, Item, Select
from moldau.products.sql.language.rewrites import Dialect, Rewritten, rewrite
from moldau.products.sql.language.tokens import Token

_OF_SPARK = (
    "any", "any_value", "approx_count_distinct", "approx_percentile", "array_agg", "avg", "bit_and", "bit_or",
    "bit_xor", "bool_and", "bool_or", "collect_list", "collect_set", "corr", "count", "count_if",
    "count_min_sketch", "covar_pop", "covar_samp", "every", "first", "first_value", "histogram_numeric",
    "hll_sketch_agg", "kurtosis", "last", "last_value", "listagg", "max", "max_by", "mean", "median", "min",
    "min_by", "mode", "percentile", "percentile_approx", "percentile_cont", "percentile_disc", "regr_avgx",
    "regr_avgy", "regr_count", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy",
    "skewness", "some", "std", "stddev", "stddev_pop", "stddev_samp", "string_agg", "sum", "try_avg", "try_sum",
    "var_pop", "var_samp", "variance",
)  # fmt: skip
_OF_KSQL = {name.lower() for name, one in FUNCTIONS.items() if one.kind is FunctionKind.AGGREGATE}
AGGREGATES = frozenset(_OF_SPARK) | _OF_KSQL
"""The names of aggregate functions, of Spark and of ksqlDB, in lower case."""


class Writing:
    """Writes the expressions of one statement as Spark SQL, and keeps what was rewritten."""

    def __init__(self, source: str, types: Mapping[str, str], dialect: Dialect) -> None:
        """`source`: the statement, in which the tokens have their places."""
        self.source = source
        self.rewrites: list[str] = []
        self.warnings: list[str] = []
        self._types, self._dialect = types, dialect

    def sql(
        self, fragment: Fragment, columns: Mapping[str, str] = OWN_COLUMNS, dialect: Dialect | None = None
    ) -> Rewritten:
        """`dialect`: None for that of the statement. Raises SqlError."""
        made = rewrite(
            self.source, fragment.tokens, columns=columns, types=self._types, dialect=dialect or self._dialect
        )
        self.rewrites += [f"line {one.line}, column {one.column}: {one.was} is {one.now}" for one in made.rewrites]
        for one in made.warnings:
            self.warn((one.line, one.column), one.message)
        return made

    def warn(self, place: tuple[int, int], message: str) -> None:
        line, column = place
        warning = f"line {line}, column {column}: {message}"
        if warning not in self.warnings:
            self.warnings.append(warning)

    def error(self, place: tuple[int, int], problem: str, *, near: str | None = None) -> SqlError:
        return error_at(self.source, place, problem, near=near)


def place_of_fragment(fragment: Fragment) -> tuple[int, int]:
    return fragment.tokens[0].place


def is_aggregated(select: Select) -> bool:
    fragments = [*(item.expression for item in select.items), *([select.having] if select.having else [])]
    return bool(select.group_by) or select.window is not None or any(map(has_aggregate, fragments))


def has_aggregate(fragment: Fragment) -> bool:
    return next(aggregate_calls(fragment.tokens), None) is not None


def aggregate_calls(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """The outermost calls of aggregate functions: the place of the name, and the place after the closing bracket."""
    at = 0
    while at < len(tokens):
        token = tokens[at]
        is_call = token.is_name and at + 1 < len(tokens) and tokens[at + 1].says("(")
        if is_call and token.value.lower() in AGGREGATES and not (at and tokens[at - 1].says(".")):
            end = after_bracket(tokens, at + 1)
            if end + 1 < len(tokens) and tokens[end].says("FILTER") and tokens[end + 1].says("("):
                end = after_bracket(tokens, end + 1)
            yield at, end
            at = end
        else:
            at += 1


def after_bracket(tokens: Sequence[Token], at: int) -> int:
    """The place after the bracket that closes the one at `at`."""
    depth = 0
    for place in range(at, len(tokens)):
        depth += tokens[place].says("(", "[") - tokens[place].says(")", "]")
        if depth == 0:
            return place + 1
    return len(tokens)


def split_at(tokens: Sequence[Token], *words: str) -> list[list[Token]]:
    """The parts between these words or symbols that stand outside of brackets. The AND of a BETWEEN splits too."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        if depth == 0 and token.says(*words):
            parts.append([])
            continue
        depth += token.says("(", "[") - token.says(")", "]")
        parts[-1].append(token)
    return parts


def unbracketed(tokens: Sequence[Token]) -> list[Token]:
    """Without brackets around the whole."""
    found = list(tokens)
    while found and found[0].says("(") and after_bracket(found, 0) == len(found):
        found = found[1:-1]
    return found


def is_same(one: Fragment, other: Fragment, scope: Scope) -> bool:
    """Whether two expressions are the same, as far as their tokens tell."""
    left, right = unbracketed(one.tokens), unbracketed(other.tokens)
    refs = scope.ref(left), scope.ref(right)
    if refs[0] is not None or refs[1] is not None:
        return refs[0] == refs[1]
    return [token.text.lower() for token in left] == [token.text.lower() for token in right]


def name_of(item: Item, scope: Scope, number: int) -> str:
    """The name of an item in the result: its alias, its column or field, or KSQL_COL_ and its number."""
    if item.alias is not None:
        return item.alias.text
    ref = scope.ref(item.expression)
    if ref is not None:
        return ref.name
    tokens = item.expression.tokens
    is_path = all(token.is_name if place % 2 == 0 else token.says(".", "->") for place, token in enumerate(tokens))
    if is_path and len(tokens) % 2:
        return tokens[-1].value
    return f"KSQL_COL_{number}"


def listed(names: Sequence[str]) -> str:
    """The names for Spark SQL."""
    return ", ".join(map(quoted, names))
