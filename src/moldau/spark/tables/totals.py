"""Aggregates that rows enter and leave.

Sums are exact: a sum of floating-point numbers that rows entered and left is the sum of the rows that are in it, to the
last bit. So a group that gets the rows of another has its result.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pyspark.sql.types import DataType, DecimalType, LongType

from moldau.errors import MoldauError

_LEAST, _MOST = -(2**63), 2**63 - 1


class TotalError(MoldauError):
    """A result does not fit in its column. The message says which."""


class Total(ABC):
    """One aggregate of a group. Its state is made of plain values, which the checkpoint holds."""

    @abstractmethod
    def empty(self) -> Any:
        """The state of a group without rows."""

    @abstractmethod
    def changed(self, state: Any, value: Any, sign: int) -> Any:
        """The state after a value entered (`sign` 1) or left (-1). It may be the same object."""

    @abstractmethod
    def result(self, state: Any) -> Any:
        """The value of the column."""


class Count(Total):
    """Values that are not null."""

    def empty(self) -> int:
        return 0

    def changed(self, state: int, value: Any, sign: int) -> int:
        return state if value is None else state + sign

    def result(self, state: int) -> int:
        return state


class Sum(Total):
    """Of integers, decimals or floating-point numbers. State: how many, their exact sum, and how many of each value
    that is not finite. `kind`: of the result."""

    def __init__(self, kind: DataType, *, is_average: bool = False) -> None:
        self._kind = kind
        self._is_average = is_average

    def empty(self) -> tuple[int, int, dict[Any, int]]:
        return 0, 0, {}

    def changed(self, state: tuple[int, Any, dict[Any, int]], value: Any, sign: int) -> tuple[int, Any, dict[Any, int]]:
        if value is None:
            return state
        count, total, odd = state
        if isinstance(value, float) and not math.isfinite(value):
            return count + sign, total, _counted(odd, value, sign)
        return count + sign, total + sign * (value if isinstance(value, int) else Fraction(value)), odd

    def result(self, state: tuple[int, Any, dict[Any, int]]) -> Any:
        count, total, odd = state
        if count == 0:
            return None
        if odd:
            return next(iter(odd)) if len(odd) == 1 and None not in odd else math.nan
        exact = Fraction(total, count) if self._is_average else Fraction(total)
        if isinstance(self._kind, DecimalType):
            return _decimal(exact, self._kind)
        if isinstance(self._kind, LongType):
            if not _LEAST <= exact <= _MOST:
                raise TotalError(f"the sum {exact} does not fit in a bigint: sum a `cast(... as decimal(38))`")
            return int(exact)
        try:
            return float(exact)
        except OverflowError:
            return math.inf if exact > 0 else -math.inf


class Distinct(Total):
    """Least and greatest value, lists and the number of different values, of values that enter and leave. `kind`: as in
    SQL. State: each different value of the group and how often it is there."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def empty(self) -> dict[Any, int]:
        return {}

    def changed(self, state: dict[Any, int], value: Any, sign: int) -> dict[Any, int]:
        return state if value is None else _counted(state, value, sign)

    def result(self, state: dict[Any, int]) -> Any:
        if self._kind == "count_distinct":
            return len(state)
        values = sorted(value for value in state if value is not None) + [math.nan] * (None in state)
        match self._kind:
            case "min":
                return values[0] if values else None
            case "max":
                return values[-1] if values else None
            case "collect_set":
                return values
            case _:
                return [value for value in values for _ in range(state[None if value != value else value])]


class Extreme(Total):
    """The least or greatest value of a stream, which no row leaves. State: that value."""

    def __init__(self, *, is_greatest: bool) -> None:
        self._is_greatest = is_greatest

    def empty(self) -> None:
        return None

    def changed(self, state: Any, value: Any, sign: int) -> Any:
        if state is None or value is None:
            return value if state is None else state
        return (max if self._is_greatest else min)(state, value, key=_rank)

    def result(self, state: Any) -> Any:
        return state


def _rank(value: Any) -> tuple[bool, Any]:
    """As Spark orders values: the floating-point value that is no number is the greatest."""
    return value != value, value


def _counted(counts: dict[Any, int], value: Any, sign: int) -> dict[Any, int]:
    """The same object. None stands for the floating-point value that is no number, which no dictionary would find."""
    known = None if value != value else value
    count = counts.get(known, 0) + sign
    if count:
        counts[known] = count
    else:
        counts.pop(known, None)
    return counts


def _decimal(exact: Fraction, kind: DecimalType) -> Decimal:
    """Rounded half up, as Spark does. Raises TotalError."""
    scaled = exact * 10**kind.scale
    digits = (2 * abs(scaled.numerator) + scaled.denominator) // (2 * scaled.denominator)
    if digits >= 10**kind.precision:
        raise TotalError(f"the result {float(exact)} does not fit in a {kind.simpleString()}: cast its values to less")
    return Decimal((int(exact < 0), tuple(map(int, str(digits))), -kind.scale))
