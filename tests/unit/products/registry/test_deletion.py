"""Permanent deletion, and what must stay."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from moldau.products.registry.core import decisions
from moldau.products.registry.core.records import (
    ConfigKey,
    ConfigValue,
    DeleteSubjectKey,
    DeleteSubjectValue,
    ModeKey,
    ModeValue,
    Record,
    Reference,
    SchemaKey,
    SchemaValue,
    encode_record,
)
from moldau.products.registry.core.refusals import Refusal
from moldau.products.registry.core.state import RegistryState, Schema

FIRST = SchemaValue("a", 1, 1, '"int"')
LATER = SchemaValue("a", 2, 2, '"string"', references=(Reference("first", "a", 1),))
SETTINGS: tuple[Record, ...] = (
    (ConfigKey("a"), ConfigValue("NONE")),
    (ModeKey("a"), ModeValue("READWRITE")),
    (ConfigKey("b"), ConfigValue("FULL")),
)


class Topic:
    """Its records, and the resulting state."""

    def __init__(self, *records: Record) -> None:
        self._log: list[tuple[bytes, bytes | None]] = []
        self.state = RegistryState()
        self.write(records)

    def write(self, records: Sequence[Record]) -> None:
        for key, value in map(encode_record, records):
            self._log.append((key, value))
            self.state.apply(key, value)

    def compacted(self) -> RegistryState:
        """The records for a registry that starts after compaction and the removal of tombstones."""
        state = RegistryState()
        for key, value in dict(self._log).items():
            if value is not None:
                state.apply(key, value)
        return state


def registered(*values: SchemaValue) -> list[Record]:
    return [(SchemaKey(value.subject, value.version), value) for value in values]


def delete_subject(topic: Topic) -> None:
    for permanent in (False, True):
        records, _ = decisions.decide_delete_subject(topic.state, "a", permanent=permanent)
        topic.write(records)


def test_the_level_and_the_mode_of_a_subject_go_with_its_last_version() -> None:
    topic = Topic(*registered(FIRST, LATER), *SETTINGS)
    for version in (2, 1):
        for permanent in (False, True):
            assert (topic.state.level("a"), topic.state.mode("a")) == ("NONE", "READWRITE")
            topic.write(decisions.decide_delete_version(topic.state, "a", version, permanent=permanent)[0])
    assert (topic.state.level("a"), topic.state.mode("a"), topic.state.level("b")) == (None, None, "FULL")


def test_the_level_and_the_mode_of_a_subject_go_with_the_subject() -> None:
    topic = Topic(*registered(FIRST), *SETTINGS)
    delete_subject(topic)
    assert (topic.state.level("a"), topic.state.mode("a"), topic.state.level("b")) == (None, None, "FULL")


def test_a_subject_whose_later_version_refers_to_its_earlier_one_is_deleted() -> None:
    topic = Topic(*registered(FIRST, LATER))
    with pytest.raises(Refusal, match="One or more references exist to version 1"):
        decisions.decide_delete_version(topic.state, "a", 1, permanent=False)
    delete_subject(topic)
    assert topic.state.subjects(deleted=True) == []


def test_no_id_is_given_twice_after_compaction_and_a_restart() -> None:
    topic = Topic(*registered(FIRST, SchemaValue("b", 1, 2, '"bytes"')))
    topic.write(decisions.decide_delete_subject(topic.state, "b", permanent=False)[0])
    topic.write(decisions.decide_delete_subject(topic.state, "b", permanent=True)[0])
    records, schema_id = decisions.decide_register(topic.compacted(), "c", Schema("AVRO", '"bytes"'))
    assert (schema_id, len(records)) == (3, 1)


def test_a_mark_of_the_newest_id_is_a_noop_for_other_registries() -> None:
    """They recognize a NOOP by its fields, in any order, and do not read its value."""
    topic = Topic(*registered(FIRST))
    topic.write([(DeleteSubjectKey("a"), DeleteSubjectValue("a", 1))])
    records, _ = decisions.decide_delete_subject(topic.state, "a", permanent=True)
    assert encode_record(records[-1]) == (b'{"magic":0,"keytype":"NOOP"}', b'{"newestId":1}')


def test_a_reference_to_the_latest_version_stays_with_that_version() -> None:
    topic = Topic(*registered(FIRST))
    schema = decisions.parse_schema(topic.state, "AVRO", '"string"', [Reference("first", "a", -1)])
    assert schema.references == (Reference("first", "a", 1),)
