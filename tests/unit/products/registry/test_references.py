"""Schemas that refer to others: how they are compiled and compared."""

from __future__ import annotations

import pytest

from moldau.products.registry.core.decisions import whole_schema
from moldau.products.registry.core.records import Reference, SchemaKey, SchemaValue, encode_record
from moldau.products.registry.core.refusals import Refusal
from moldau.products.registry.core.state import RegistryState, schema_of


def registered(*values: SchemaValue) -> RegistryState:
    state = RegistryState()
    for value in values:
        state.apply(*encode_record((SchemaKey(value.subject, value.version), value)))
    return state


def value(number: int, *references: Reference) -> SchemaValue:
    return SchemaValue(f"s{number}", 1, number, f"text {number}", "PROTOBUF", references)


def test_what_is_referred_to_stands_before_what_refers_to_it() -> None:
    one, two = Reference("one.proto", "s1", 1), Reference("two.proto", "s2", 1)
    top = value(3, two, one)
    found = whole_schema(registered(value(1), value(2, one), top), schema_of(top))
    assert found.references == (("one.proto", "text 1"), ("two.proto", "text 2"))


def test_a_schema_to_which_many_ways_lead_is_read_once() -> None:
    """Each of 100 levels refers twice to the one below: the lowest level has 2^100 paths."""
    levels = [value(0)]
    for number in range(1, 100):
        below = [Reference(f"{name}{number}.proto", f"s{number - 1}", 1) for name in "ab"]
        levels.append(value(number, *below))
    assert len(whole_schema(registered(*levels), schema_of(levels[-1])).references) == 2 * 99


def test_more_levels_than_the_stack_has_are_refused() -> None:
    levels = [value(0), *(value(n, Reference(f"{n}.proto", f"s{n - 1}", 1)) for n in range(1, 2_000))]
    with pytest.raises(Refusal, match="its references have too many levels"):
        whole_schema(registered(*levels), schema_of(levels[-1]))
