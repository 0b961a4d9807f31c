"""Reads the section `tests` of a pipeline file.

    tests:
      only big orders are kept:
        given:
          orders:
            - {user: ann, amount: 120}
            - {user: bob, amount: 5, _key: k, _timestamp: "2026-01-01T00:00:00Z"}
        expect:
          big:
            - {user: ann, amount: 120}

In a list of lists in `given`, each inner list is one micro-batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain

from moldau.products.pipelines.core.case import Case, Expected
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.spec.keys import CASE_KEYS, EXPECT, GIVEN


def parse_cases(tests: Section, sources: Collection[str], results: Collection[str]) -> Iterator[Case]:
    """`results`: the names of flows and targets. Raises SpecError."""
    for name in tests.entries():
        case = tests.section(name)
        case.allow(*CASE_KEYS)
        given, expect = GIVEN.of(case), EXPECT.of(case)
        given.allow(*sources)
        expect.allow(*results)
        yield Case(
            name=name,
            line=tests.line_of(name),
            given={source: _batches(given, source) for source in given.entries()},
            expected=tuple(_expected(expect, result) for result in expect.entries()),
        )


def _batches(given: Section, source: str) -> tuple[tuple[object, ...], ...]:
    records = given.values(source, exact=True)
    batches: tuple[tuple[object, ...], ...] = (tuple(records),)
    if records and all(isinstance(one, list) for one in records):
        batches = tuple(tuple(one) for one in records if isinstance(one, list))
    for record in chain.from_iterable(batches):
        odd = [name for name in record if not isinstance(name, str)] if isinstance(record, dict) else []
        if odd:
            given.refuse(
                source, f"has a record with the name {odd[0]!r}, which is no text: write names such as `on` in quotes"
            )
    return batches


def _expected(expect: Section, name: str) -> Expected:
    rows = expect.values(name, exact=True)
    if not all(isinstance(row, dict) for row in rows):
        expect.refuse(name, "must be a list of rows, such as `- {user: ann, amount: 120}`")
    return Expected(name, expect.line_of(name), tuple(row for row in rows if isinstance(row, dict)))
