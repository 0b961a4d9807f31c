"""Messages to test with: every served (class, version), and strategies for their values."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

import msgspec
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from moldau.wire.protocol.api_keys import API_VERSIONS, CONTROLLER_API_VERSIONS, ApiVersionRange
from moldau.wire.protocol.messages import (
    group_records,
    metadata_records,
    raft_records,
    share_records,
)
from moldau.wire.protocol.schema import (
    Array,
    Bytes,
    Field,
    FieldType,
    Primitive,
    Text,
    declared_messages,
    fields_of,
    message_info,
)

MessageClass = type[msgspec.Struct]


def versions_of(rows: Iterable[ApiVersionRange]) -> list[tuple[MessageClass, int]]:
    return [
        (cls, version)
        for row in rows
        for cls in (row.request, row.response)
        for version in range(row.min_version, row.max_version + 1)
    ]


API_MESSAGES = versions_of(API_VERSIONS.values())
NODE_MESSAGES = versions_of(CONTROLLER_API_VERSIONS.values())
"""Messages that only nodes send to each other."""


def declared_in(*modules: ModuleType) -> list[tuple[MessageClass, int]]:
    return [
        (cls, version)
        for module in modules
        for cls in declared_messages(module)
        for version in range(message_info(cls).versions.first, message_info(cls).versions.last + 1)
    ]


ALL_MESSAGES = API_MESSAGES + NODE_MESSAGES + declared_in(metadata_records, group_records, raft_records, share_records)


def generated(examples: int) -> settings:
    """For a test of each message and version: that many examples, or fewer if the profile has fewer.

    Shrinking a failure of a large message takes minutes: the failing example is printed as it is.
    """
    return settings(
        max_examples=min(examples, settings().max_examples),
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )


def sample_id(sample: object) -> str:
    return sample.__name__ if isinstance(sample, type) else f"v{sample}"


_INTEGERS = {
    "b": st.integers(-(2**7), 2**7 - 1),
    "h": st.integers(-(2**15), 2**15 - 1),
    "H": st.integers(0, 2**16 - 1),
    "i": st.integers(-(2**31), 2**31 - 1),
    "q": st.integers(-(2**63), 2**63 - 1),
    "?": st.booleans(),
    "d": st.floats(allow_nan=False, allow_infinity=False),
    "16s": st.one_of(st.just(bytes(16)), st.binary(min_size=16, max_size=16)),
}
# the values that kio's types can hold: errors that it knows, times as datetime, -1 as no time
_ERROR_CODES = st.integers(-1, 119)
_TIMES = st.one_of(st.just(-1), st.integers(0, 2**41))
_STRINGS = st.one_of(
    st.sampled_from(("", "topic-a", "é€😀", "x" * 126, "x" * 127, "x" * 128, "y" * 300)),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=8),
)
_BYTE_STRINGS = st.one_of(st.binary(max_size=8), st.sampled_from((b"z" * 126, b"z" * 127, b"z" * 17_000)))


def _values(field: Field, field_type: FieldType, version: int) -> st.SearchStrategy[object]:
    if isinstance(field_type, Primitive):
        if field.name.endswith("error_code"):
            return _ERROR_CODES
        is_time = "timestamp" in field.name or field.name.endswith(("time_ms", "period_ms"))
        if field_type.format == "q" and is_time:
            return _TIMES
        return _INTEGERS[field_type.format]
    if isinstance(field_type, Text):
        return _STRINGS
    if isinstance(field_type, Bytes):
        return _BYTE_STRINGS
    if isinstance(field_type, Array):
        sizes = st.lists(_values(field, field_type.element, version), max_size=2).map(tuple)
        if isinstance(field_type.element, Primitive) and field_type.element.format in "hiq":
            # long enough for a length of two bytes; made without drawing, which would be slow
            return st.one_of(sizes, st.just(tuple(range(130))))
        return sizes
    return messages(field_type.struct, version)


_strategies: dict[tuple[MessageClass, int], st.SearchStrategy[msgspec.Struct]] = {}


def messages(cls: MessageClass, version: int) -> st.SearchStrategy[msgspec.Struct]:
    """Values of `cls` in which only the fields of `version` are set."""
    if (cls, version) not in _strategies:
        strategies = {}
        for field in fields_of(cls):
            if not field.is_present(version):
                continue
            values = _values(field, field.type, version)
            if field.is_nullable(version):
                values = st.one_of(st.none(), values)
            if field.is_tagged(version):
                values = st.one_of(st.just(field.default), values)
            strategies[field.name] = values
        _strategies[cls, version] = st.builds(cls, **strategies)
    return _strategies[cls, version]
