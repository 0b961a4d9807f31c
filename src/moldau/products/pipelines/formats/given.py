"""Converts the JSON values of a test to Python values of a column.

Times, decimals and bytes are JSON texts in Spark's form.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from moldau.products.pipelines.core.failures import FlowError

if TYPE_CHECKING:
    import pyarrow as pa


def json_text(value: object) -> str:
    """The value as JSON. A number with a fraction is a Decimal and keeps its digits: `json` would use floats, which
    have 17."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_name(name)}: {json_text(one)}' for name, one in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(json_text, value))}]"
    return json.dumps(value)


def _name(name: object) -> str:
    """The name of a field. YAML may have read it as a number or as true; in JSON it is a text."""
    return json.dumps(name if isinstance(name, str) else json_text(name))


def from_json(value: object, kind: pa.DataType) -> object:
    """`kind`: of the column. Raises FlowError for a value that does not fit it."""
    try:
        return _value(value, kind)
    except (ValueError, TypeError, AttributeError, InvalidOperation) as error:
        raise FlowError(f"{value!r} is no {kind}: {error}") from error


def _value(value: Any, kind: pa.DataType) -> object:
    import pyarrow as pa

    if value is None:
        return None
    if pa.types.is_list(kind):
        return [_value(one, kind.value_type) for one in _of(Sequence, value)]
    if pa.types.is_map(kind):
        return {key: _value(one, kind.item_type) for key, one in _of(Mapping, value).items()}
    if pa.types.is_struct(kind):
        return {name: _value(one, kind.field(name).type) for name, one in _of(Mapping, value).items()}
    if pa.types.is_timestamp(kind):
        moment = datetime.fromisoformat(value)
        if kind.tz is None:
            return moment.replace(tzinfo=None)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    texts: list[tuple[bool, Callable[[Any], object]]] = [
        (pa.types.is_date(kind), date.fromisoformat),
        (pa.types.is_time(kind), time.fromisoformat),
        (pa.types.is_decimal(kind), lambda number: Decimal(str(number))),
        (pa.types.is_floating(kind), lambda number: float(number) if isinstance(number, Decimal) else number),
        (pa.types.is_binary(kind), lambda text: base64.b64decode(text, validate=True)),
    ]
    return next((read(value) for is_it, read in texts if is_it), value)


def _of(wanted: type, value: Any) -> Any:
    if isinstance(value, str) or not isinstance(value, wanted):
        raise TypeError(f"a {wanted.__name__.lower()} is expected")
    return value
