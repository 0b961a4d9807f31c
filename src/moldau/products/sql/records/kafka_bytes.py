"""The format KAFKA: one column, with the bytes of Kafka's own serializers.

A STRING is UTF-8; INT, BIGINT and DOUBLE are 4, 8 and 8 bytes, the highest first; BYTES are themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.statement import literal, quoted
from moldau.products.pipelines.formats.format import CORRUPT_COLUMN
from moldau.products.sql.records.part import Encoding, Part

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.spark import DataFrame

_WIDTHS = {"int": 4, "bigint": 8, "double": 8}
TYPES = ("string", *_WIDTHS, "binary")
_NUMBER = "_moldau_number"


class KafkaPart(Part, frozen=True, kw_only=True):
    def check(self) -> None:
        if len(self.columns) > 1:
            raise FlowError(
                f"the format KAFKA has one column, and the {self.name} has {len(self.columns)}: use JSON for the "
                f"{self.name}"
            )
        if self._type not in TYPES:
            raise FlowError(
                f"the format KAFKA has no bytes for {self.columns[0].name.text}, which is {self._type}: use JSON for "
                f"the {self.name}"
            )

    def decoded(self, records: DataFrame, into: str) -> DataFrame:
        if self._type == "double":
            import pyarrow as pa

            from moldau.spark.frames.columns import with_column  # a statement is checked without Spark

            records = with_column(records, _NUMBER, self.name, doubles_of, pa.float64())
        column = quoted(self.columns[0].name.text)
        fits, value = self._fits(), self._value()
        corrupt = f"if({self.name} is null or {fits}, null, {literal(self._misfit)}) as {CORRUPT_COLUMN}"
        struct = f"struct(if({fits}, {value}, null) as {column}, {corrupt}) as {into}"
        return records.selectExpr("*", struct).drop(_NUMBER)

    def reason(self, into: str) -> str:
        return f"{into}.{CORRUPT_COLUMN}"

    def encoded(self, rows: DataFrame, struct: str) -> Encoding:
        field = self.field(struct)
        if self._type == "double":
            return Encoding(f"cast({field} as double)", bytes_of)
        if self._type in _WIDTHS:
            digits = 2 * _WIDTHS[self._type]
            # hex() of a negative number has all 16 digits of its two's complement
            return Encoding(f"unhex(right(lpad(hex(cast({field} as bigint)), 16, '0'), {digits}))")
        return Encoding(f"cast({field} as binary)")

    @property
    def _type(self) -> str:
        return self.columns[0].type

    @property
    def _misfit(self) -> str:
        wanted = f"{_WIDTHS[self._type]} bytes" if self._type in _WIDTHS else "UTF-8"
        return f"the {self.name} is not {wanted}, as a {self._type} is in the format KAFKA"

    def _fits(self) -> str:
        if self._type in _WIDTHS:
            return f"octet_length({self.name}) = {_WIDTHS[self._type]}"
        return f"is_valid_utf8(cast({self.name} as string))" if self._type == "string" else "true"

    def _value(self) -> str:
        if self._type == "double":
            return _NUMBER
        if self._type in _WIDTHS:
            # 16 digits, of which the first is the sign
            sign = f"if(substr(hex({self.name}), 1, 1) >= '8', 'F', '0')"
            return f"try_cast(conv(lpad(hex({self.name}), 16, {sign}), 16, -10) as {self._type})"
        return f"cast({self.name} as {self._type})"


def doubles_of(values: pa.Array) -> pa.Array:
    """Of 8 bytes each, the highest first; null for others."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    fits = pc.equal(pc.binary_length(values), 8).fill_null(False)
    whole = pc.if_else(fits, values, pa.scalar(bytes(8), pa.binary())).cast(pa.binary(8))
    numbers = np.frombuffer(whole.buffers()[1], ">f8", len(whole), 8 * whole.offset)
    return pa.array(numbers.astype("f8"), pa.float64(), mask=~fits.to_numpy(zero_copy_only=False))


def bytes_of(numbers: pa.Array) -> pa.Array:
    """Doubles as 8 bytes each, the highest first."""
    import pyarrow as pa
    import pyarrow.compute as pc

    present = numbers.fill_null(0.0).to_numpy(zero_copy_only=False).astype(">f8")
    made = pa.FixedSizeBinaryArray.from_buffers(pa.binary(8), len(numbers), [None, pa.py_buffer(present.tobytes())])
    return pc.if_else(numbers.is_valid(), made.cast(pa.binary()), pa.scalar(None, pa.binary()))
