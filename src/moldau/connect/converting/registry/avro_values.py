"""Functions between the values of a schema and those that the Avro library writes and reads, compiled once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.connect.converting.converter import DataError
from moldau.connect.converting.java_numbers import as_float
from moldau.connect.converting.json_writing import Step, reject, struct_writer, whole
from moldau.connect.converting.logical import from_plain, to_plain
from moldau.connect.data.schema import Schema, Type

_UNION = "io.confluent.connect.avro.Union"


def writer(schema: Schema) -> Step:
    """From a value to what fastavro writes with the schema without its logical types. Raises DataError."""
    step = _present(schema)

    def write(value: object) -> object:
        if value is not None:
            return step(value)
        if schema.default is not None:
            return step(schema.default)
        if schema.optional:
            return None
        raise DataError("Found null value for non-optional schema")

    return write


def _present(schema: Schema) -> Step:
    plain, step = to_plain(schema), _of_type(schema)
    return step if plain is None else lambda value: step(plain(value))


def _of_type(schema: Schema) -> Step:
    match schema.type:
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            return whole(schema.type)
        case Type.FLOAT32 | Type.FLOAT64:
            return lambda value: _float(schema, value)
        case Type.BOOLEAN:
            return lambda value: value if value.__class__ is bool else reject(schema, value)
        case Type.STRING:
            return lambda value: value if isinstance(value, str) else reject(schema, value)
        case Type.BYTES:
            return lambda value: bytes(value) if isinstance(value, bytes | bytearray) else reject(schema, value)
        case Type.ARRAY:
            return _array(schema)
        case Type.MAP:
            return _map(schema)
        case Type.STRUCT if schema.name == _UNION:
            return _union(schema)
        case Type.STRUCT:
            return struct_writer(schema, tuple((one.name, writer(one.schema)) for one in schema.fields))


def _float(schema: Schema, value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return reject(schema, value)
    try:
        return as_float(value) if schema.type is Type.FLOAT32 else float(value)
    except OverflowError:
        return reject(schema, value)


def _array(schema: Schema) -> Step:
    step = writer(_some(schema.values))

    def write(value: object) -> object:
        if not isinstance(value, list | tuple):
            return reject(schema, value)
        return [step(one) for one in value]

    return write


def _map(schema: Schema) -> Step:
    keys = _some(schema.keys)
    key_step, step = writer(keys), writer(_some(schema.values))
    is_object = keys.type is Type.STRING and not keys.optional

    def write(value: object) -> object:
        if not isinstance(value, Mapping):
            return reject(schema, value)
        if is_object:
            return {key_step(key): step(one) for key, one in value.items()}
        return [{"key": key_step(key), "value": step(one)} for key, one in value.items()]

    return write


def _union(schema: Schema) -> Step:
    """The value has one field, which names the member of the union."""
    steps = {one.name: (_branch(one.schema), _present(one.schema)) for one in schema.fields}

    def write(value: object) -> object:
        given = {name: one for name, one in value.items() if one is not None} if isinstance(value, Mapping) else {}
        if len(given) != 1 or not given.keys() <= steps.keys():
            raise DataError(f"A union needs a value for exactly one of {', '.join(steps)}")
        ((name, one),) = given.items()
        branch, step = steps[name]
        return branch, step(one)

    return write


def _branch(schema: Schema) -> str:
    if schema.type is Type.STRUCT and schema.name is not None:
        return schema.name
    enum = schema.parameters.get("io.confluent.connect.avro.Enum")
    words = {Type.INT8: "int", Type.INT16: "int", Type.INT32: "int", Type.INT64: "long"}
    return enum or words.get(schema.type, schema.type.value)


def reader(schema: Schema) -> Step:
    """From what fastavro reads to a value."""
    plain = from_plain(schema)
    match schema.type:
        case Type.ARRAY:
            step = reader(_some(schema.values))
            return lambda value: None if value is None else [step(one) for one in value]  # type: ignore[attr-defined]
        case Type.MAP:
            return _read_map(schema)
        case Type.STRUCT if schema.name == _UNION:
            return _read_union(schema)
        case Type.STRUCT:
            parts = tuple((one.name, reader(one.schema)) for one in schema.fields)
            return lambda value: None if value is None else {name: one(value[name]) for name, one in parts}  # type: ignore[index]
        case Type.FLOAT32:
            return lambda value: value
    return (lambda value: value) if plain is None else (lambda value: None if value is None else plain(value))


def _read_map(schema: Schema) -> Step:
    key_step, step = reader(_some(schema.keys)), reader(_some(schema.values))

    def read(value: object) -> object:
        if isinstance(value, dict):
            return {key: step(one) for key, one in value.items()}
        if isinstance(value, list):
            return {key_step(one["key"]): step(one["value"]) for one in value}
        return None

    return read


_PYTHON = {
    Type.INT8: int,
    Type.INT16: int,
    Type.INT32: int,
    Type.INT64: int,
    Type.FLOAT32: float,
    Type.FLOAT64: float,
    Type.BOOLEAN: bool,
    Type.STRING: str,
    Type.BYTES: bytes,
    Type.ARRAY: list,
    Type.MAP: dict,
    Type.STRUCT: dict,
}


def _read_union(schema: Schema) -> Step:
    """fastavro gives the name with a value of a named type if the union has more than one of these."""
    steps = [(one.name, one.schema, reader(one.schema)) for one in schema.fields]

    def read(value: object) -> object:
        if value is None:
            return None
        found: Any = value
        full, found = found if isinstance(found, tuple) else (None, found)
        for name, member, step in steps:
            fits = member.name == full or name == full if full is not None else type(found) is _PYTHON[member.type]
            if fits:
                return {each: step(found) if each == name else None for each, _, _ in steps}
        raise DataError(f"No member of the union takes a {type(found).__name__}")

    return read


def to_default(schema: Schema, value: object) -> Any:
    """The default of a schema as JSON in Avro's form: bytes are a text of their code points."""
    return _json(writer(schema)(value))


def _json(value: Any) -> Any:
    match value:
        case bytes():
            return value.decode("latin-1")
        case tuple():
            return _json(value[1])
        case list():
            return [_json(one) for one in value]
        case dict():
            return {key: _json(one) for key, one in value.items()}
    return value


def from_default(schema: Schema, found: Any) -> object:
    """The inverse of `to_default`."""
    return reader(schema)(_avro(schema, found))


def _avro(schema: Schema, found: Any) -> Any:
    match schema.type:
        case Type.BYTES if isinstance(found, str):
            return found.encode("latin-1")
        case Type.FLOAT32 | Type.FLOAT64 if isinstance(found, int):
            return float(found)
        case Type.ARRAY if isinstance(found, list):
            return [_avro(_some(schema.values), one) for one in found]
        case Type.MAP if isinstance(found, dict):
            return {key: _avro(_some(schema.values), one) for key, one in found.items()}
        case Type.STRUCT if isinstance(found, dict):
            return {one.name: _avro(one.schema, found.get(one.name)) for one in schema.fields}
    return found


def _some(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("An array or a map needs a schema of its values")
    return schema
