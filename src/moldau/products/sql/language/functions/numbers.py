"""Functions of numbers."""

from __future__ import annotations

from moldau.products.sql.language.functions.row import MANY, Call, Function, Refused, same

_MILES = ("mi", "mile", "miles")
_KILOMETRES = ("km", "kilometer", "kilometers", "kilometre", "kilometres")
_BELOW_ONE = "for 0 and for negative numbers it is null; in ksqlDB it is -Infinity and NaN"


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(f"'{word}'" for word in words)


def _distance(call: Call) -> str:
    """The haversine formula on a sphere of 6,371 km or 3,959 miles."""
    radius = "6371"
    if call.count == 5 and call.words[4] != "NULL":
        unit = call.texts[4]
        if unit is None:
            radius = (
                f"CASE WHEN lower(trim(@4)) IN ({_listed(_MILES)}) THEN 3959 "
                f"WHEN coalesce(lower(trim(@4)), '') IN ('', {_listed(_KILOMETRES)}) THEN 6371 END"
            )
        elif unit.strip().lower() in _MILES:
            radius = "3959"
        elif unit.strip() and unit.strip().lower() not in _KILOMETRES:
            raise Refused(f"GEO_DISTANCE measures in 'KM' or 'MILES', not in '{unit}'")
    angle = (
        "asin(sqrt(power(sin(radians(double(@2) - @0) / 2), 2) + "
        "power(sin(radians(double(@3) - @1) / 2), 2) * cos(radians(@0)) * cos(radians(@2))))"
    )
    return (
        "CASE WHEN abs(@0) <= 90 AND abs(@2) <= 90 AND abs(@1) <= 180 AND abs(@3) <= 180 "
        f"THEN 2 * {angle} * {radius} END"
    )


NUMBERS = (
    same("ABS", "ABS(x)"),
    same("ACOS", "ACOS(x)"),
    same("ASIN", "ASIN(x)"),
    same("ATAN", "ATAN(x)"),
    same("ATAN2", "ATAN2(y, x)"),
    same("CBRT", "CBRT(x)"),
    same("CEIL", "CEIL(x)", note="a DOUBLE gives BIGINT, in ksqlDB DOUBLE"),
    same("COS", "COS(x)"),
    same("COSH", "COSH(x)"),
    same("COT", "COT(x)"),
    same("DEGREES", "DEGREES(x)"),
    same("EXP", "EXP(x)"),
    same("FLOOR", "FLOOR(x)", note="a DOUBLE gives BIGINT, in ksqlDB DOUBLE"),
    Function(
        name="GENERATE_SERIES",
        examples=("GENERATE_SERIES(first, last)", "GENERATE_SERIES(first, last, step)"),
        forms={2: "sequence(@0, @1)", 3: "sequence(@0, @1, @2)"},
        note="a step in the wrong direction fails the query, in ksqlDB it gives null",
    ),
    Function(
        name="GEO_DISTANCE",
        examples=("GEO_DISTANCE(lat1, lon1, lat2, lon2)", "GEO_DISTANCE(lat1, lon1, lat2, lon2, 'MILES')"),
        build=_distance,
        least=4,
        most=5,
    ),
    same("GREATEST", "GREATEST(a, b, c)"),
    same("LEAST", "LEAST(a, b, c)"),
    Function(
        name="LN",
        examples=("LN(x)",),
        forms={
            1: "CASE WHEN @0 > 0 THEN ln(@0) WHEN @0 = 0 THEN double('-Infinity') WHEN @0 < 0 THEN double('NaN') END"
        },
        in_spark=True,
        differs=_BELOW_ONE,
    ),
    Function(
        name="LOG",
        examples=("LOG(x)", "LOG(base, x)"),
        forms={
            1: "CASE WHEN @0 > 0 THEN ln(@0) WHEN @0 = 0 THEN double('-Infinity') WHEN @0 < 0 THEN double('NaN') END",
            2: "CASE WHEN @0 IS NULL OR @1 IS NULL THEN NULL WHEN @0 <= 0 OR @0 = 1 OR @1 < 0 THEN double('NaN') "
            "WHEN @1 = 0 THEN double('-Infinity') ELSE log(@0, @1) END",
        },
        in_spark=True,
        differs=_BELOW_ONE,
        note="LOG(x) is the natural logarithm, as in ksqlDB, whose documentation says base 10",
    ),
    same("PI", "PI()"),
    same("POWER", "POWER(base, exponent)"),
    same("RADIANS", "RADIANS(x)"),
    same("RANDOM", "RANDOM()"),
    Function(
        name="ROUND",
        examples=("ROUND(x)", "ROUND(x, 2)"),
        forms={1: "floor(@0 + 0.5)", 2: "round(@0, @1)"},
        in_spark=True,
        differs="it rounds a half away from zero, and of a DOUBLE it gives a DOUBLE",
        note="with two arguments, a half below zero is rounded down, in ksqlDB up; the number of places is a constant",
    ),
    Function(
        name="SIGN",
        examples=("SIGN(x)",),
        forms={1: "CAST(sign(@0) AS INT)"},
        in_spark=True,
        differs="it gives a DOUBLE",
    ),
    same("SIN", "SIN(x)"),
    same("SINH", "SINH(x)"),
    same("SQRT", "SQRT(x)"),
    same("TAN", "TAN(x)"),
    same("TANH", "TANH(x)"),
    Function(
        name="TRUNC",
        examples=("TRUNC(x)", "TRUNC(x, 2)"),
        forms={
            1: "try_cast(@0 AS BIGINT)",
            2: "CAST(CASE WHEN @0 < 0 THEN ceil(@0, @1) ELSE floor(@0, @1) END AS DOUBLE)",
        },
        in_spark=True,
        differs="it truncates dates",
        own=lambda call: call.count == 1 or (call.count == 2 and call.numbers[1] is not None),
        note="gives BIGINT, with two arguments DOUBLE, for a DECIMAL too; the number of places is a constant",
    ),
    same("COALESCE", "COALESCE(a, b)"),
    same("IFNULL", "IFNULL(a, b)"),
    same("NULLIF", "NULLIF(a, b)"),
    Function(
        name="FIELD",
        examples=("FIELD(text, 'a', 'b')",),
        build=lambda call: "CAST(coalesce(array_position(array(@1*), @0), 0) AS INT)",
        least=2,
        most=MANY,
    ),
    Function(
        name="ELT",
        examples=("ELT(n, 'a', 'b')",),
        build=lambda call: "get(array(@1*), @0 - 1)",
        least=2,
        most=MANY,
        in_spark=True,
        differs="a number without an element fails the query, in ksqlDB it gives null",
    ),
    Function(name="AS_VALUE", examples=("AS_VALUE(key)",), forms={1: "@0"}),
)
