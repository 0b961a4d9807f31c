"""Functions of arrays and maps, and those that take lambdas."""

from __future__ import annotations

from moldau.products.sql.language.functions.row import Call, Function, Kind, Refused, same


def _sorted(call: Call) -> str:
    if call.count == 1:
        return "array_sort(@0)"
    named = call.texts[1]
    if named is None:
        return (
            "CASE WHEN upper(@1) IN ('ASC', 'ASCENDING') THEN array_sort(@0) "
            "WHEN upper(@1) IN ('DESC', 'DESCENDING') THEN sort_array(@0, false) END"
        )
    if named.upper() in ("ASC", "ASCENDING"):
        return "array_sort(@0)"
    if named.upper() in ("DESC", "DESCENDING"):
        return "sort_array(@0, false)"
    raise Refused(f"ARRAY_SORT sorts 'ASC' or 'DESC', not '{named}'")


def _slice(call: Call) -> str:
    first, last = call.numbers[1], call.numbers[2]
    if first is not None and last is not None and 1 <= first <= last:
        return f"if(array_size(@0) >= @2, slice(@0, @1, {last - first + 1}), NULL)"
    return (
        "CASE WHEN coalesce(@1, 1) >= 1 AND coalesce(@2, array_size(@0)) <= array_size(@0) "
        "AND coalesce(@1, 1) <= coalesce(@2, array_size(@0)) + 1 "
        "THEN slice(@0, coalesce(@1, 1), coalesce(@2, array_size(@0)) - coalesce(@1, 1) + 1) END"
    )


def _entries(call: Call) -> str:
    made = "transform(map_entries(@0), _e -> named_struct('K', _e.key, 'V', _e.value))"
    if call.words[1] == "FALSE":
        return made
    return f"array_sort({made})" if call.words[1] == "TRUE" else f"if(@1, array_sort({made}), {made})"


def _lambdas(call: Call, *wanted: tuple[int, ...]) -> tuple[int, ...]:
    """The parameters of the call's lambdas. `wanted`: what the function takes; anything else is refused."""
    found = tuple(count for count in call.lambdas if count)
    if found not in wanted or not all(call.lambdas[-len(found) :]):
        spoken = {
            "FILTER": "an array and x => ..., or a map and (k, v) => ...",
            "TRANSFORM": "an array and x => ..., or a map, (k, v) => ... and (k, v) => ...",
            "REDUCE": "an array, a state and (s, x) => ..., or a map, a state and (s, k, v) => ...",
        }[call.name]
        raise Refused(f"{call.name} takes {spoken}")
    return found


def _filter(call: Call) -> str:
    return "filter(@0, @1)" if _lambdas(call, (1,), (2,)) == (1,) else "map_filter(@0, @1)"


def _transform(call: Call) -> str:
    if _lambdas(call, (1,), (2, 2)) == (1,):
        return "transform(@0, @1)"
    return "map_from_arrays(map_values(transform_values(@0, @1)), map_values(transform_values(@0, @2)))"


def _reduce(call: Call) -> str:
    if _lambdas(call, (2,), (3,)) == (2,):
        return "if(@0 IS NULL OR @1 IS NULL, @1, reduce(@0, @1, @2))"
    # the map's lambda has three parameters: zip_with over one entry names the key and the value
    step = "(@2.first, _e) -> get(zip_with(array(_e.key), array(_e.value), (@2.rest) -> @2.body), 0)"
    return f"if(@0 IS NULL OR @1 IS NULL, @1, reduce(map_entries(@0), @1, {step}))"


def _has_lambda(call: Call) -> bool:
    return any(call.lambdas)


COLLECTIONS = (
    Function(name="ARRAY_CONCAT", examples=("ARRAY_CONCAT(a, b)",), forms={2: "coalesce(concat(@0, @1), @0, @1)"}),
    Function(
        name="ARRAY_CONTAINS",
        examples=("ARRAY_CONTAINS(list, value)",),
        forms={2: "coalesce(exists(@0, _e -> _e <=> @1), false)"},
        in_spark=True,
        differs="a null list, a null value, or a list with nulls that does not have the value gives null",
    ),
    same("ARRAY_DISTINCT", "ARRAY_DISTINCT(list)"),
    same("ARRAY_EXCEPT", "ARRAY_EXCEPT(a, b)"),
    same("ARRAY_INTERSECT", "ARRAY_INTERSECT(a, b)"),
    Function(
        name="ARRAY_JOIN",
        examples=("ARRAY_JOIN(list)", "ARRAY_JOIN(list, '|')"),
        forms={
            1: "array_join(CAST(@0 AS ARRAY<STRING>), ',', 'null')",
            2: "array_join(CAST(@0 AS ARRAY<STRING>), coalesce(@1, ''), 'null')",
        },
        in_spark=True,
        differs="nulls are left out, in ksqlDB they become `null`",
        own=lambda call: call.count == 1,
    ),
    Function(name="ARRAY_LENGTH", examples=("ARRAY_LENGTH(list)",), forms={1: "array_size(@0)"}),
    same("ARRAY_MAX", "ARRAY_MAX(list)"),
    same("ARRAY_MIN", "ARRAY_MIN(list)"),
    Function(
        name="ARRAY_REMOVE",
        examples=("ARRAY_REMOVE(list, value)",),
        forms={2: "filter(@0, _e -> NOT (_e <=> @1))"},
        in_spark=True,
        differs="a null value gives null, in ksqlDB it removes nulls",
    ),
    Function(
        name="ARRAY_SORT",
        examples=("ARRAY_SORT(list)", "ARRAY_SORT(list, 'DESC')"),
        build=_sorted,
        least=1,
        most=2,
        in_spark=True,
        differs="the second argument is a lambda that compares",
        own=lambda call: call.count == 2 and call.texts[1] is not None,
    ),
    same("ARRAY_UNION", "ARRAY_UNION(a, b)"),
    Function(
        name="AS_MAP",
        examples=("AS_MAP(keys, values)",),
        forms={
            2: "if(@1 IS NULL, NULL, map_from_arrays(@0, transform(@0, (_e, _i) -> get(@1, _i))))",
        },
        note="a null key fails the query",
    ),
    Function(
        name="ENTRIES",
        examples=("ENTRIES(map, true)",),
        build=_entries,
        least=2,
        most=2,
    ),
    same(
        "EXPLODE",
        "EXPLODE(list)",
        kind=Kind.TABLE,
        note="one in a SELECT, for several write `inline(arrays_zip(a, b))`; its rows have no `->field`",
    ),
    Function(
        name="CUBE_EXPLODE",
        kind=Kind.TABLE,
        examples=("CUBE_EXPLODE(ARRAY[a, b])",),
        forms={
            1: "explode(reduce(@0, array(slice(@0, 1, 0)), (_s, _e) -> flatten(transform(_s, _i -> if(_e IS NULL, "
            "array(concat(_i, array(_e))), array(concat(_i, array(nullif(_e, _e))), concat(_i, array(_e))))))))",
        },
    ),
    same("MAP_KEYS", "MAP_KEYS(map)"),
    Function(
        name="MAP_UNION",
        examples=("MAP_UNION(a, b)",),
        forms={
            2: "coalesce(map_concat(map_filter(@0, (_k, _v) -> NOT map_contains_key(@1, _k)), @1), @0, @1)",
        },
    ),
    same("MAP_VALUES", "MAP_VALUES(map)"),
    Function(
        name="SLICE",
        examples=("SLICE(list, 2, 3)", "SLICE(list, first, last)"),
        build=_slice,
        least=3,
        most=3,
        in_spark=True,
        differs="the third argument is a number of elements, in ksqlDB it is the last place",
    ),
    Function(
        name="FILTER",
        kind=Kind.LAMBDA,
        examples=("FILTER(list, x => x > 1)", "FILTER(map, (k, v) => v > 1)"),
        build=_filter,
        least=2,
        most=2,
        in_spark=True,
        own=_has_lambda,
    ),
    Function(
        name="REDUCE",
        kind=Kind.LAMBDA,
        examples=("REDUCE(list, 0, (s, x) => s + x)", "REDUCE(map, 0, (s, k, v) => s + v)"),
        build=_reduce,
        least=3,
        most=3,
        in_spark=True,
        own=_has_lambda,
        note="the state has the type of the lambda's result: CAST(0 AS BIGINT) for a BIGINT",
    ),
    Function(
        name="TRANSFORM",
        kind=Kind.LAMBDA,
        examples=("TRANSFORM(list, x => x + 1)", "TRANSFORM(map, (k, v) => UCASE(k), (k, v) => v + 1)"),
        build=_transform,
        least=2,
        most=3,
        in_spark=True,
        own=_has_lambda,
    ),
)
