"""Aggregates that rows enter and leave, without Spark's engine."""

from __future__ import annotations

import math
import pickle
import random
from decimal import Decimal
from fractions import Fraction

import pytest
from pyspark.sql.types import DecimalType, DoubleType, LongType

from moldau.spark.tables.totals import Count, Distinct, Extreme, Sum, Total, TotalError

NAN = float("nan")


def result(total: Total, *changes: tuple[object, int]) -> object:
    """After each change the state goes through a checkpoint."""
    state = total.empty()
    for value, sign in changes:
        state = pickle.loads(pickle.dumps(total.changed(state, value, sign)))
    return total.result(state)


def test_a_sum_of_numbers_that_left_is_that_of_the_others_to_the_last_bit() -> None:
    assert 1e20 + 0.1 - 1e20 == 0.0  # as numbers with a floating point would have it
    assert result(Sum(DoubleType()), (1e20, 1), (0.1, 1), (1e20, -1)) == 0.1


def test_any_order_of_rows_has_the_same_sum() -> None:
    rng = random.Random(1)
    values = [rng.uniform(-1, 1) * 10.0 ** rng.randint(-12, 12) for _ in range(300)]
    wanted = float(sum(map(Fraction, values)))
    for _ in range(3):
        rng.shuffle(values)
        changes = [(value, 1) for value in values] + [(value, 1) for value in values] + [(v, -1) for v in values]
        assert result(Sum(DoubleType()), *changes) == wanted


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([], None),
        ([None], None),
        ([math.inf, 1.0], math.inf),
        ([1e308, 1e308], math.inf),
        ([-1e308, -1e308], -math.inf),
    ],
)
def test_a_sum_has_the_values_of_sql(values: list[float | None], wanted: float | None) -> None:
    assert result(Sum(DoubleType()), *((value, 1) for value in values)) == wanted


def test_values_that_are_no_numbers_leave_a_sum_too() -> None:
    total = Sum(DoubleType())
    assert math.isnan(result(total, (NAN, 1), (1.5, 1)))
    assert math.isnan(result(total, (math.inf, 1), (-math.inf, 1)))
    assert result(total, (NAN, 1), (math.inf, 1), (1.5, 1), (float("nan"), -1), (math.inf, -1)) == 1.5


def test_decimals_are_rounded_half_up_at_their_scale() -> None:
    kind = DecimalType(14, 2)
    assert result(Sum(kind), (Decimal("1.10"), 1), (Decimal("-3.25"), 1)) == Decimal("-2.15")
    mean = Sum(kind, is_average=True)
    assert str(result(mean, (Decimal("0.01"), 1), (Decimal("0.02"), 1))) == "0.02"
    assert str(result(mean, (Decimal("-0.01"), 1), (Decimal("-0.02"), 1))) == "-0.02"
    assert str(result(Sum(DecimalType(38, 10)), (Decimal("1234567890123456789012345678.0123456789"), 1))) == (
        "1234567890123456789012345678.0123456789"
    )


def test_a_result_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(TotalError, match="bigint"):
        result(Sum(LongType()), (2**63 - 1, 1), (1, 1))
    assert result(Sum(LongType()), (2**63 - 1, 1), (1, 1), (2, -1)) == 2**63 - 2
    with pytest.raises(TotalError, match=r"decimal\(3,1\)"):
        result(Sum(DecimalType(3, 1)), (Decimal("99.9"), 1), (Decimal("0.1"), 1))


def test_counts_leave_nulls_out() -> None:
    assert result(Count(), (None, 1), ("a", 1), ("b", 1), ("a", -1)) == 1


def test_an_extreme_that_leaves_gives_way_to_the_next() -> None:
    changes = [(value, 1) for value in ("b", "a", None, "c", "a")]
    assert result(Distinct("min"), *changes, ("a", -1)) == "a"
    assert result(Distinct("min"), *changes, ("a", -1), ("a", -1)) == "b"
    assert result(Distinct("max"), *changes, ("c", -1)) == "b"
    assert result(Distinct("max"), (1, 1), (1, -1)) is None


def test_lists_are_sorted_and_know_how_often_a_value_is_there() -> None:
    changes = [(2, 1), (1, 1), (2, 1), (None, 1), (3, 1), (3, -1)]
    assert result(Distinct("collect_list"), *changes) == [1, 2, 2]
    assert result(Distinct("collect_set"), *changes) == [1, 2]
    assert result(Distinct("count_distinct"), *changes) == 2


def test_what_is_no_number_is_the_greatest() -> None:
    changes = [(NAN, 1), (1.0, 1), (float("nan"), 1)]
    assert math.isnan(result(Distinct("max"), *changes))
    assert result(Distinct("max"), *changes, (NAN, -1), (NAN, -1)) == 1.0
    assert result(Distinct("min"), *changes) == 1.0
    assert math.isnan(result(Extreme(is_greatest=True), *changes))
    assert result(Extreme(is_greatest=False), *changes) == 1.0


def test_an_extreme_of_a_stream_is_one_value() -> None:
    assert result(Extreme(is_greatest=True), (None, 1), (3, 1), (5, 1), (4, 1)) == 5
    assert result(Extreme(is_greatest=False), (None, 1)) is None
