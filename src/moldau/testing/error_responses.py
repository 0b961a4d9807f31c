"""Makes an error response to any request from the message schemas.

The code is set at the highest level that has an error code, and everything below is omitted, as Kafka does. Otherwise
the response repeats each requested item with the code.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from moldau.errors import ERROR_CODES
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey
from moldau.wire.protocol.schema import Array, Field, FieldType, Nested, Primitive, Text, fields_of

# field names of one thing in requests and responses
_SAME = (
    ("name", "topic", "topic_name", "transactional_id"),
    ("partition_index", "partition", "index"),
    ("group_id", "group", "key"),
)
_WHOLE_ONLY: dict[ApiKey, tuple[str, ...]] = {
    # the top-level code of these APIs is about the session or the client's metadata, not about partitions
    ApiKey.FETCH: ("FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH", "FETCH_SESSION_TOPIC_ID_ERROR"),
    ApiKey.METADATA: ("REBOOTSTRAP_REQUIRED",),
}
_CODES = ("error_code", "partition_error_code")
_UNKNOWN_WHEN_REFUSED = ("offset", "watermark", "timestamp", "append_time_ms", "leader_id", "node_id", "port")


def has_error_code(api_key: ApiKey) -> bool:
    """Whether a response of this API can contain an error code."""
    return _holds_code(API_VERSIONS[api_key].response)


def error_response(api_key: ApiKey, version: int, request: msgspec.Struct, error_name: str) -> msgspec.Struct:
    """The response to `request` in which everything fails with `error_name`."""
    maker = _Maker(version, error_name, is_top_for_whole=api_key in _WHOLE_ONLY)
    response = maker.make(API_VERSIONS[api_key].response, request)
    return _without_top_code(api_key, response, error_name)


def with_errors(api_key: ApiKey, version: int, response: msgspec.Struct, error_name: str) -> msgspec.Struct:
    """A real response with its error codes replaced. Used for Metadata, whose response has to name the brokers."""
    return _without_top_code(api_key, _overlaid(response, version, ERROR_CODES[error_name]), error_name)


def names_of(request: msgspec.Struct) -> tuple[tuple[str | bytes, ...], str | None]:
    """The topics (by name, or by the 16 bytes of their id) and the group that a request names."""
    topics: dict[str | bytes, None] = {}
    groups: list[str] = []
    _collect(request, "", topics, groups)
    return tuple(topics), groups[0] if groups else None


def can_name(request: type[msgspec.Struct], what: str) -> bool:
    """Whether such a request has a field for `what` a fault selects by: "topic" or "group"."""
    return any(_is_place(field.name, field.type, "", what) for field in fields_of(request))


def _is_place(name: str, kind: FieldType, parent: str, what: str) -> bool:
    """Uses the same names as `_collect`."""
    if isinstance(kind, Array):
        kind = kind.element
        if isinstance(kind, Text):
            return what in name or (what == "group" and name == "coordinator_keys")
    if isinstance(kind, Nested):
        return any(_is_place(field.name, field.type, name, what) for field in fields_of(kind.struct))
    if what == "group":
        return name in ("group_id", "group", "key")
    return name in ("topic", "topic_name", "topic_id") or (name == "name" and "topic" in parent)


def _collect(value: msgspec.Struct, parent: str, topics: dict[str | bytes, None], groups: list[str]) -> None:
    for field in fields_of(type(value)):
        content = getattr(value, field.name)
        is_topic_name = field.name in ("topic", "topic_name") or (field.name == "name" and "topic" in parent)
        if isinstance(content, str) and content:
            if is_topic_name:
                topics[content] = None
            elif field.name in ("group_id", "group", "key"):
                groups.append(content)
        elif field.name == "topic_id" and isinstance(content, bytes) and any(content):
            topics[content] = None
        elif isinstance(content, tuple):
            for element in content:
                if isinstance(element, msgspec.Struct):
                    _collect(element, field.name, topics, groups)
                elif isinstance(element, str) and "topic" in field.name:
                    topics[element] = None
                elif isinstance(element, str) and ("group" in field.name or field.name == "coordinator_keys"):
                    groups.append(element)
        elif isinstance(content, msgspec.Struct):
            _collect(content, field.name, topics, groups)


class _Maker:
    def __init__(self, version: int, name: str, *, is_top_for_whole: bool) -> None:
        self._version = version
        self._code = ERROR_CODES[name]
        self._name = name
        self._is_top_for_whole = is_top_for_whole

    def make(self, struct: type[msgspec.Struct], asked: object) -> msgspec.Struct:
        """A response struct for `asked`: a struct of the request, or one value of a plain array."""
        fields = [field for field in fields_of(struct) if field.is_present(self._version)]
        values = {field.name: self._value(field, asked) for field in fields}
        if not self._is_top_for_whole and any(field.name == "error_code" for field in fields):
            for field in fields:
                if isinstance(field.type, Array) and field.name in values:
                    values[field.name] = None if field.is_nullable(self._version) else ()
        return struct(**values)

    def _value(self, field: Field, asked: object) -> object:
        if field.name in _CODES:
            return self._code
        if field.name == "error_message":
            return self._name
        if isinstance(field.type, Array):
            return self._array(field, field.type.element, asked)
        is_number = isinstance(field.type, Primitive) and field.type.format in "ihq"
        if is_number and field.name.endswith(_UNKNOWN_WHEN_REFUSED):
            return -1
        found = _echo(field, asked)
        if found is not None:
            return found
        return None if field.is_nullable(self._version) else field.default

    def _array(self, field: Field, element: FieldType, asked: object) -> object:
        """One element for each requested item; empty if the elements have no error code."""
        if not isinstance(element, Nested) or not _holds_code(element.struct):
            return None if field.is_nullable(self._version) else ()
        return tuple(self.make(element.struct, one) for one in self._asked_about(field.name, asked))

    def _asked_about(self, name: str, asked: object) -> tuple[object, ...]:
        """The array of the request that corresponds to `name` of the response: the one of that name, else the first."""
        if not isinstance(asked, msgspec.Struct):
            return ()
        arrays = {
            field.name: getattr(asked, field.name)
            for field in fields_of(type(asked))
            if isinstance(field.type, Array) and field.is_present(self._version)
        }
        if name in arrays and arrays[name] is not None:
            return tuple(arrays[name])
        for content in arrays.values():
            if content:
                return tuple(content)
        return ()


def _echo(field: Field, asked: object) -> object | None:
    """The value that the request has under the field's name, or under another name of the same thing."""
    if not isinstance(asked, msgspec.Struct):
        # an element of a plain array is the name or the number itself
        is_text = isinstance(field.type, Text) and isinstance(asked, str)
        is_index = isinstance(asked, int) and field.name in _SAME[1]
        return asked if is_text or is_index else None
    names = next((names for names in _SAME if field.name in names), (field.name,))
    for other in fields_of(type(asked)):
        if (other.name == field.name or other.name in names) and type(other.type) is type(field.type):
            value: object = getattr(asked, other.name)
            return value
    return None


def _holds_code(struct: type[msgspec.Struct]) -> bool:
    return any(field.name in _CODES or any(map(_holds_code, _nested(field.type))) for field in fields_of(struct))


def _nested(field_type: FieldType) -> Iterator[type[msgspec.Struct]]:
    if isinstance(field_type, Array):
        yield from _nested(field_type.element)
    elif isinstance(field_type, Nested):
        yield field_type.struct


def _overlaid(response: msgspec.Struct, version: int, code: int) -> msgspec.Struct:
    changes: dict[str, object] = {}
    for field in fields_of(type(response)):
        content = getattr(response, field.name)
        if field.name in _CODES and field.is_present(version):
            changes[field.name] = code
        elif isinstance(content, tuple):
            changes[field.name] = tuple(
                _overlaid(element, version, code) if isinstance(element, msgspec.Struct) else element
                for element in content
            )
    return msgspec.structs.replace(response, **changes)


def _without_top_code(api_key: ApiKey, response: msgspec.Struct, error_name: str) -> msgspec.Struct:
    whole_only = _WHOLE_ONLY.get(api_key)
    if whole_only is None or not hasattr(response, "error_code"):
        return response
    if error_name in whole_only:
        return type(response)(error_code=ERROR_CODES[error_name])
    return msgspec.structs.replace(response, error_code=0)
