"""Converters give the bytes and the values of Apache Kafka's, but for listed cases."""

from __future__ import annotations

import pytest

from tests.converter_pairs.comparing import normal
from tests.converter_pairs.corpus import DIFFERENCES, cases
from tests.converter_pairs.kafka import ask, recorded
from tests.converter_pairs.ours import answer


def test_answers_are_those_recorded_of_kafka() -> None:
    kafka = recorded()
    differing = {case["name"] for case in cases() if normal(answer(case)) != normal(kafka[case["name"]])}
    assert differing == set(DIFFERENCES)


def test_every_recorded_answer_has_a_case() -> None:
    assert [case["name"] for case in cases()] == list(dict.fromkeys(case["name"] for case in cases()))
    assert {case["name"] for case in cases()} == set(recorded())


@pytest.mark.java
def test_kafka_answers_as_recorded() -> None:
    asked, kafka = list(cases()), recorded()
    found = zip(asked, ask(asked), strict=True)
    changed = {case["name"] for case, own in found if normal(own) != normal(kafka[case["name"]])}
    assert changed <= {name for name in DIFFERENCES if name.startswith("string bytes")}
