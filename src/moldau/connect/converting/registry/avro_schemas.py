"""A schema of a record as an Avro schema, as Confluent's AvroData writes it, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from moldau.connect.converting.converter import DataError
from moldau.connect.converting.logical import scale_of
from moldau.connect.converting.registry.avro_values import from_default, to_default
from moldau.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, Type

NAMESPACE = "io.confluent.connect.avro"
UNION = f"{NAMESPACE}.Union"
ENUM = f"{NAMESPACE}.Enum"
_DEFAULT_NAME = "ConnectDefault"
_MAP_ENTRY = "MapEntry"
_RECORD_DOC = f"{NAMESPACE}.record.doc"
_FIELD_DOC = f"{NAMESPACE}.field.doc."
_ENUM_DOC = f"{NAMESPACE}.enum.doc."
_FIELD_DEFAULT = f"{NAMESPACE}.field.default"
_FIXED_SIZE = "connect.fixed.size"
_PRECISION = "connect.decimal.precision"
_DEFAULT_PRECISION = 64
_PLAIN = {
    Type.INT8: "int",
    Type.INT16: "int",
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_LOGICAL = {DATE: "date", TIME: "time-millis", TIMESTAMP: "timestamp-millis"}
_BACK = {
    "int": Type.INT32,
    "long": Type.INT64,
    "float": Type.FLOAT32,
    "double": Type.FLOAT64,
    "boolean": Type.BOOLEAN,
    "string": Type.STRING,
    "bytes": Type.BYTES,
    "fixed": Type.BYTES,
    "enum": Type.STRING,
}
_BACK_LOGICAL = {
    ("int", "date"): DATE,
    ("int", "time-millis"): TIME,
    ("long", "timestamp-millis"): TIMESTAMP,
    ("bytes", "decimal"): DECIMAL,
    ("fixed", "decimal"): DECIMAL,
}
MAX_DEPTH = 100
"""Types in each other; a schema that is deeper is rejected."""


def to_avro(schema: Schema, keeps_enums: bool = False) -> Any:
    """The Avro schema, as JSON. `keeps_enums`: a string with the parameters of an enum is one. Raises DataError."""
    return _Writing(keeps_enums).written(schema)


class _Writing:
    """One schema. `_defined`: the schemas of the named types so far, by name: a second use is the name alone."""

    def __init__(self, keeps_enums: bool) -> None:
        self._keeps_enums = keeps_enums
        self._defined: dict[str, Schema] = {}
        self._unnamed = 0

    def written(self, schema: Schema) -> Any:
        if schema.name == UNION and schema.type is Type.STRUCT:
            members = [self._base(replace(one.schema, optional=False)) for one in schema.fields]
            return ["null", *members] if schema.optional else members
        base = self._base(replace(schema, optional=False))
        if not schema.optional:
            return base
        return [base, "null"] if schema.default is not None else ["null", base]

    def _base(self, schema: Schema) -> Any:
        kind = self._kind(schema)
        if isinstance(kind, str) and kind not in _PLAIN.values():
            return kind  # a type that is defined already
        written: dict[str, Any] = {"type": kind} if isinstance(kind, str) else kind
        if schema.doc is not None:
            written["connect.doc"] = schema.doc
        if schema.version is not None:
            written["connect.version"] = schema.version
        parameters = {name: value for name, value in schema.parameters.items() if name != _FIELD_DEFAULT}
        if parameters:
            written["connect.parameters"] = parameters
        if schema.default is not None and _FIELD_DEFAULT not in schema.parameters:
            written["connect.default"] = to_default(schema, schema.default)
        if schema.name is not None:
            written["connect.name"] = schema.name
        if schema.type in (Type.INT8, Type.INT16):
            written["connect.type"] = schema.type.value
        written |= _logical(schema)
        written |= {name: value for name, value in schema.parameters.items() if name.startswith("avro.")}
        return written["type"] if written.keys() == {"type"} else written

    def _kind(self, schema: Schema) -> Any:
        match schema.type:
            case Type.STRING if self._keeps_enums and ENUM in schema.parameters:
                return self._enum(schema)
            case Type.BYTES if _FIXED_SIZE in schema.parameters:
                name = self._named(schema)
                return name if name in self._again(name, schema) else {
                    "type": "fixed", **_split(name), "size": int(schema.parameters[_FIXED_SIZE])
                }  # fmt: skip
            case Type.ARRAY:
                return {"type": "array", "items": self.written(_some(schema.values))}
            case Type.MAP:
                keys = _some(schema.keys)
                if keys.type is Type.STRING and not keys.optional:
                    return {"type": "map", "values": self.written(_some(schema.values))}
                return {"type": "array", "items": self._entry(schema, keys)}
            case Type.STRUCT:
                return self._record(schema)
        return _PLAIN[schema.type]

    def _again(self, name: str, schema: Schema) -> tuple[str, ...]:
        """The name, if the type is defined already. Raises DataError if it is another one."""
        plain = replace(schema, default=None)
        before = self._defined.setdefault(name, plain)
        if before is plain:
            return ()
        if before != plain:
            raise DataError(f"The schema has two types with the name {name}")
        return (name,)

    def _named(self, schema: Schema) -> str:
        if schema.name is not None:
            return schema.name
        plain = replace(schema, default=None)
        for name, before in self._defined.items():
            if before == plain:
                return name
        self._unnamed += 1
        return f"{NAMESPACE}.{_DEFAULT_NAME}{self._unnamed if self._unnamed > 1 else ''}"

    def _enum(self, schema: Schema) -> Any:
        name = schema.parameters[ENUM]
        if name in self._again(name, schema):
            return name
        symbols = [key.removeprefix(f"{ENUM}.") for key in schema.parameters if key.startswith(f"{ENUM}.")]
        return {"type": "enum", **_split(name), "symbols": symbols}

    def _record(self, schema: Schema) -> Any:
        name = self._named(schema)
        if name in self._again(name, schema):
            return name
        written: dict[str, Any] = {"type": "record", **_split(name)}
        if _RECORD_DOC in schema.parameters:
            written["doc"] = schema.parameters[_RECORD_DOC]
        docs = {one.name: schema.parameters.get(_FIELD_DOC + one.name) for one in schema.fields}
        written["fields"] = [self._field(one.name, one.schema, docs[one.name]) for one in schema.fields]
        return written

    def _entry(self, schema: Schema, keys: Schema) -> Any:
        name = schema.name or f"{NAMESPACE}.{_MAP_ENTRY}"
        if name in self._again(name, schema):
            return name
        fields = [self._field("key", keys, None), self._field("value", _some(schema.values), None)]
        written: dict[str, Any] = {"type": "record", **_split(name), "fields": fields}
        return written if schema.name is None else {**written, "connect.internal.type": _MAP_ENTRY}

    def _field(self, name: str, schema: Schema, doc: str | None) -> dict[str, Any]:
        written = {"name": name, "type": self.written(schema)}
        if doc is not None:
            written["doc"] = doc
        if schema.default is not None:
            written["default"] = to_default(schema, schema.default)
        elif schema.optional:
            written["default"] = None
        return written


def _some(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("An array or a map needs a schema of its values")
    return schema


def _split(name: str) -> dict[str, str]:
    namespace, _, last = name.rpartition(".")
    return {"name": last, "namespace": namespace} if namespace else {"name": last}


def _logical(schema: Schema) -> dict[str, Any]:
    if schema.name == DECIMAL and schema.type is Type.BYTES:
        scale = scale_of(schema)
        precision = int(schema.parameters.get(_PRECISION, _DEFAULT_PRECISION))
        return {"logicalType": "decimal", "precision": precision, "scale": scale}
    word = _LOGICAL.get(schema.name or "")
    return {"logicalType": word} if word else {}


def from_avro(found: Any, version: int | None = None) -> Schema:
    """The schema of a record. `version`: of the registry, unless the schema has one. Raises DataError."""
    return _Reading().read(found, "", version)


class _Reading:
    def __init__(self) -> None:
        self._defined: dict[str, Any] = {}
        self._open: list[str] = []
        self._depth = 0

    def read(
        self, found: Any, namespace: str, version: int | None = None, optional: bool = False, default: Any = None
    ) -> Schema:
        """`default`: of the field, as JSON."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise DataError(f"The schema has more than {MAX_DEPTH} types in each other")
        try:
            if isinstance(found, list):
                return self._union(found, namespace, default)
            if isinstance(found, str) and found not in _BACK:
                name = found if "." in found or not namespace else f"{namespace}.{found}"
                name = name if name in self._defined else found
                if name in self._open:
                    raise DataError(f"The type {name} contains itself, which records of connectors cannot have")
                if name not in self._defined:
                    raise DataError(f"The schema has no type {name}")
                found, namespace = self._defined[name], name.rpartition(".")[0]
            if isinstance(found, str):
                found = {"type": found}
            inner = found["type"]
            if isinstance(inner, list):
                return self._union(inner, namespace, default)
            if isinstance(inner, dict):
                outer = {key: one for key, one in found.items() if key != "type"}
                return self.read({**inner, **outer}, namespace, version, optional, default)
            return self._one(found, namespace, version, optional, default)
        finally:
            self._depth -= 1

    def _one(self, found: Any, namespace: str, version: int | None, optional: bool, default: Any) -> Schema:
        kind = found["type"]
        name = _full_name(found, namespace) if kind in ("record", "error", "enum", "fixed") else None
        if name is not None:
            self._defined[name] = found
            self._open.append(name)
            namespace = name.rpartition(".")[0]
        schema = self._of_kind(kind, found, namespace, name)
        if name is not None:
            self._open.pop()
        parameters = {**schema.parameters, **found.get("connect.parameters", {})}
        parameters |= {key: str(value) for key, value in found.items() if key.startswith("avro")}
        written_name = found.get("connect.name", name)
        if written_name is not None and written_name.startswith(f"{NAMESPACE}.{_DEFAULT_NAME}"):
            written_name = None
        schema = replace(
            schema,
            optional=optional,
            name=schema.name or written_name,
            version=schema.version or found.get("connect.version", version),
            doc=found.get("connect.doc"),
            parameters=parameters,
        )
        if default is not None and "connect.default" not in found:
            schema = replace(schema, parameters={**parameters, _FIELD_DEFAULT: "true"})
        default = found.get("connect.default") if default is None else default
        return schema if default is None else replace(schema, default=from_default(schema, default))

    def _of_kind(self, kind: str, found: Any, namespace: str, name: str | None) -> Schema:
        match kind:
            case "record" | "error":
                return self._record(found, namespace)
            case "array":
                return self._array(found["items"], namespace)
            case "map":
                values = self.read(found["values"], namespace)
                return Schema(Type.MAP, keys=Schema(Type.STRING), values=values)
            case "enum":
                symbols = {f"{ENUM}.{one}": one for one in found["symbols"]}
                doc = {_ENUM_DOC + str(found["name"]): found["doc"]} if found.get("doc") else {}
                return Schema(Type.STRING, parameters={**doc, ENUM: str(name), **symbols})
        if kind not in _BACK:
            raise DataError(f"The Avro type {kind} alone is not a schema of a record")
        logical = _BACK_LOGICAL.get((kind, found.get("logicalType")))
        parameters: dict[str, str] = {}
        if logical == DECIMAL:
            parameters["scale"] = str(found.get("scale", 0))
            if found.get("precision", _DEFAULT_PRECISION) != _DEFAULT_PRECISION:
                parameters[_PRECISION] = str(found["precision"])
        if kind == "fixed":
            parameters[_FIXED_SIZE] = str(found["size"])
        own = found.get("connect.type")
        exact = Type(own) if kind == "int" and own in (Type.INT8, Type.INT16) else _BACK[kind]
        return Schema(exact, name=logical, version=1 if logical else None, parameters=parameters)

    def _record(self, found: Any, namespace: str) -> Schema:
        docs = {_RECORD_DOC: found["doc"]} if found.get("doc") else {}
        fields = []
        for one in found["fields"]:
            if one.get("doc"):
                docs[_FIELD_DOC + one["name"]] = one["doc"]
            fields.append(Field(one["name"], self.read(one["type"], namespace, default=one.get("default"))))
        return Schema(Type.STRUCT, parameters=docs, fields=tuple(fields))

    def _array(self, items: Any, namespace: str) -> Schema:
        if is_map_entry(items, namespace):
            self._defined[_full_name(items, namespace)] = items
            inner = _full_name(items, namespace).rpartition(".")[0]
            key, value = (self.read(one["type"], inner) for one in items["fields"])
            return Schema(Type.MAP, keys=key, values=value)
        return Schema(Type.ARRAY, values=self.read(items, namespace))

    def _union(self, found: list[Any], namespace: str, default: Any) -> Schema:
        members = [one for one in found if one != "null"]
        if len(members) == 1 and len(found) == 2:
            return self.read(members[0], namespace, optional=True, default=default)
        fields = tuple(Field(member_name(one, namespace), self.read(one, namespace, optional=True)) for one in members)
        return Schema(Type.STRUCT, optional="null" in found, name=UNION, fields=fields)


def member_name(member: Any, namespace: str) -> str:
    """The name of a member of a union: of a named type its last name, else the word of the type."""
    if isinstance(member, str):
        return member.rpartition(".")[2]
    name = member.get("name") if member["type"] in ("record", "enum", "fixed", "error") else member["type"]
    return str(name).rpartition(".")[2]


def is_map_entry(items: Any, namespace: str = "") -> bool:
    """Whether the elements of an array are the entries of a map whose keys are not strings."""
    if not isinstance(items, Mapping) or items.get("type") != "record" or len(items["fields"]) != 2:
        return False
    own = (
        items.get("connect.internal.type") == _MAP_ENTRY or _full_name(items, namespace) == f"{NAMESPACE}.{_MAP_ENTRY}"
    )
    return own and [one["name"] for one in items["fields"]] == ["key", "value"]


def _full_name(found: Mapping[str, Any], namespace: str) -> str:
    name = str(found["name"])
    if "." in name:
        return name
    space = found.get("namespace", namespace)
    return f"{space}.{name}" if space else name
