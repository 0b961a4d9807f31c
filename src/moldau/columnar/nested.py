"""Changes the plain arrays inside nested Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

IsMeant = Callable[[pa.DataType], bool]


def has_inside(kind: pa.DataType, is_meant: IsMeant) -> bool:
    """Whether the type, or one inside of it, is meant."""
    return is_meant(kind) or any(has_inside(kind.field(place).type, is_meant) for place in range(kind.num_fields))


def rebuilt(column: Any, is_meant: IsMeant, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """The column with what `change` gives for each array of a type that is meant, which may be of another type. What is
    inside of structs, lists and maps is found; `column`: a pyarrow Array."""
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
    # of a slice the offsets lie in a buffer that begins before them, and `from_arrays` takes no mask beside such
    offsets = pa.array(column.offsets.to_numpy(), pa.int32())
    if pa.types.is_map(kind):
        keys, items = rebuilt(column.keys, is_meant, change), rebuilt(column.items, is_meant, change)
        made = pa.map_(kind.key_field.with_type(keys.type), kind.item_field.with_type(items.type))
        return pa.MapArray.from_arrays(offsets, keys, items, type=made, mask=mask)
    values = rebuilt(column.values, is_meant, change)
    return pa.ListArray.from_arrays(offsets, values, type=pa.list_(kind.value_field.with_type(values.type)), mask=mask)
