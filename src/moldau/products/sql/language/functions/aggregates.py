"""Aggregate functions."""

from __future__ import annotations

from moldau.products.sql.language.functions.row import MANY, Call, Function, Kind, Refused, same

_EMPTY = "of no value it gives null, in ksqlDB 0"
_KEEPS = "the state of a group keeps every value"


def _order(call: Call) -> str:
    missing = [name for name in ("ROWOFFSET", "ROWPARTITION") if name not in call.columns]
    if missing:
        better = "max_by(value, time)" if call.name.startswith("LATEST") else "min_by(value, time)"
        raise Refused(f"{call.name} needs the offsets of records, and these rows have none: write {better}")
    return f"struct({call.columns['ROWOFFSET']}, {call.columns['ROWPARTITION']})"


def _by_offset(call: Call) -> str:
    flags = [word == "TRUE" for word in call.words[1:] if word in ("TRUE", "FALSE")]
    numbers = [number for number in call.numbers[1:] if number is not None and number > 0]
    is_flag = [word in ("TRUE", "FALSE") for word in call.words[1:]]
    if len(flags) + len(numbers) != call.count - 1 or is_flag not in ([], [True], [False], [False, True]):
        raise Refused(f"{call.name} takes a value, then a number of values from 1, then true or false to ignore nulls")
    latest = call.name.startswith("LATEST")
    made = f"{'max_by' if latest else 'min_by'}(@0, {_order(call)}{f', {numbers[0]}' if numbers else ''})"
    if not flags or flags[0]:
        made += " FILTER (WHERE @0 IS NOT NULL)"
    return f"reverse({made})" if numbers and latest else made


def _top(call: Call) -> str:
    most = call.numbers[-1]
    if most is None or most < 1:
        raise Refused("TOPK takes the number of values last, as a whole number from 1")
    if call.count == 2:
        return f"max_by(@0, @0, {most})"
    others = ", ".join(f"'col{place}', @{place + 1}" for place in range(call.count - 2))
    return f"max_by(named_struct('sort_col', @0, {others}), @0, {most})"


_ORDER_NOTE = "among partitions, the higher offset is the later one"

AGGREGATES = (
    Function(
        name="ATTR",
        kind=Kind.AGGREGATE,
        examples=("ATTR(value)",),
        forms={1: "if(min(@0) = max(@0) AND count(@0) = count(1), min(@0), NULL)"},
    ),
    Function(
        name="AVG",
        kind=Kind.AGGREGATE,
        examples=("AVG(x)",),
        forms={1: "coalesce(avg(@0), 0)"},
        in_spark=True,
        differs=_EMPTY,
    ),
    Function(
        name="COLLECT_LIST",
        kind=Kind.AGGREGATE,
        examples=("COLLECT_LIST(x)",),
        forms={1: "transform(collect_list(struct(@0 AS v)), _e -> _e.v)"},
        in_spark=True,
        differs="nulls are left out",
        note=f"the order is not kept; {_KEEPS}",
    ),
    Function(
        name="COLLECT_SET",
        kind=Kind.AGGREGATE,
        examples=("COLLECT_SET(x)",),
        forms={1: "transform(collect_set(struct(@0 AS v)), _e -> _e.v)"},
        in_spark=True,
        differs="null is left out",
        note="the order is not kept; the state of a group keeps every distinct value",
    ),
    Function(
        name="CORRELATION",
        kind=Kind.AGGREGATE,
        examples=("CORRELATION(x, y)",),
        forms={2: "coalesce(corr(@0, @1), double('NaN'))"},
    ),
    same("COUNT", "COUNT(x)", kind=Kind.AGGREGATE),
    Function(
        name="COUNT_DISTINCT",
        kind=Kind.AGGREGATE,
        examples=("COUNT_DISTINCT(x)",),
        forms={1: "approx_count_distinct(@0, 0.01)"},
        note="an estimate, as in ksqlDB, but not the same one",
    ),
    *(
        Function(
            name=name,
            kind=Kind.AGGREGATE,
            examples=(f"{name}(x)", f"{name}(x, 3)", f"{name}(x, 3, false)"),
            build=_by_offset,
            least=1,
            most=3,
            note=_ORDER_NOTE,
        )
        for name in ("EARLIEST_BY_OFFSET", "LATEST_BY_OFFSET")
    ),
    Function(
        name="HISTOGRAM",
        kind=Kind.AGGREGATE,
        examples=("HISTOGRAM(text)",),
        forms={
            1: "map_from_entries(transform(array_distinct(collect_list(@0)), "
            "_e -> struct(_e, CAST(size(filter(collect_list(@0), _i -> _i = _e)) AS BIGINT))))",
        },
        note=f"nulls are not counted; it counts all values, ksqlDB the first 1,000; {_KEEPS}",
    ),
    same("MAX", "MAX(x)", kind=Kind.AGGREGATE),
    same("MIN", "MIN(x)", kind=Kind.AGGREGATE),
    Function(
        name="STDDEV_SAMP",
        kind=Kind.AGGREGATE,
        examples=("STDDEV_SAMP(x)",),
        forms={1: "coalesce(var_samp(@0), 0)"},
        in_spark=True,
        differs="it is the standard deviation, in ksqlDB the variance",
    ),
    Function(
        name="STDDEV_SAMPLE",
        kind=Kind.AGGREGATE,
        examples=("STDDEV_SAMPLE(x)",),
        forms={1: "coalesce(stddev_samp(@0), 0)"},
    ),
    Function(
        name="SUM",
        kind=Kind.AGGREGATE,
        examples=("SUM(x)",),
        forms={1: "coalesce(sum(@0), 0)"},
        in_spark=True,
        differs=_EMPTY,
        note="of INT it gives BIGINT, in ksqlDB INT",
    ),
    Function(
        name="SUM_LIST",
        kind=Kind.AGGREGATE,
        examples=("SUM_LIST(list)",),
        forms={1: "coalesce(sum(reduce(@0, double(0), (_s, _e) -> _s + coalesce(_e, 0))), 0)"},
        note="gives DOUBLE",
    ),
    Function(
        name="TOPK",
        kind=Kind.AGGREGATE,
        examples=("TOPK(x, 3)", "TOPK(x, a, b, 3)"),
        build=_top,
        least=2,
        most=MANY,
    ),
    Function(
        name="TOPKDISTINCT",
        kind=Kind.AGGREGATE,
        examples=("TOPKDISTINCT(x, 3)",),
        forms={2: "slice(sort_array(collect_set(@0), false), 1, @1)"},
        note="the state of a group keeps every distinct value",
    ),
)
