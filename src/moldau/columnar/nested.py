"""Changes the plain arrays inside nested Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

IsMeant = Callable[[pa.DataType], bool]


def has_inside(kind: pa.DataType, is_meant: IsMeant) -> bool:
    """Whether `is_meant` accepts the type, or a type nested in it."""
    return is_meant(kind) or any(has_inside(kind.field(place).type, is_meant) for place in range(kind.num_fields))


def rebuilt(column: Any, is_meant: IsMeant, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """The column with each array of a type that `is_meant` accepts replaced by the result of `change`, which may have
    another type. Finds arrays nested in structs, lists and maps. `column`: a pyarrow Array."""
    kind = column.type
    if is_meant(kind):
        return change(column)
    if not has_inside(kind, is_meant):
        return column
    mask = column.is_null() if column.null_count else None
    if pa.types.is_struct(kind):
        parts = [rebuilt(column.field(place), is_meant, change) for place in range(kind.num_fields)]
        fields = [kind.field(place).with_type(part.type) for place, part in enumerate(parts)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=mask)
    # the offsets of a slice begin inside a buffer, and `from_arrays` accepts no mask with such offsets
    offsets = pa.array(column.offsets.to_numpy(), pa.int32())
    if pa.types.is_map(kind):
        keys, items = rebuilt(column.keys, is_meant, change), rebuilt(column.items, is_meant, change)
        made = pa.map_(kind.key_field.with_type(keys.type), kind.item_field.with_type(items.type))
        return pa.MapArray.from_arrays(offsets, keys, items, type=made, mask=mask)
    values = rebuilt(column.values, is_meant, change)
    return pa.ListArray.from_arrays(offsets, values, type=pa.list_(kind.value_field.with_type(values.type)), mask=mask)
