"""Settings of connectors: the values and the sentences of Kafka's ConfigDef."""

from __future__ import annotations

import pytest

from moldau.connect.configuration import (
    ConfigError,
    Kind,
    Secret,
    Setting,
    check,
    in_range,
    one_of,
    parse,
    unknown,
)

SETTINGS = (
    Setting("file", Kind.STRING),
    Setting("tasks", Kind.INT, 1, check=in_range(1)),
    Setting("mode", Kind.STRING, "none", check=one_of("none", "all")),
    Setting("names", Kind.LIST, ()),
    Setting("login", Kind.PASSWORD, None),
    Setting("on", Kind.BOOLEAN, False),
)


def test_texts_become_values() -> None:
    given = {"x.file": "/a", "x.tasks": " 3 ", "x.names": "a, b", "x.login": "pw", "x.on": "TRUE"}
    values = parse(SETTINGS, given, "x.")
    assert values == {
        "file": "/a",
        "tasks": 3,
        "mode": "none",
        "names": ["a", "b"],
        "login": Secret("pw"),
        "on": True,
    }
    assert "pw" not in f"{values['login']} {values}"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, 'Missing required configuration "file" which has no default value.'),
        ({"file": "a", "tasks": "x"}, "Invalid value x for configuration tasks: Not a number of type INT"),
        (
            {"file": "a", "tasks": "2147483648"},
            "Invalid value 2147483648 for configuration tasks: Not a number of type",
        ),
        ({"file": "a", "tasks": "0"}, "Invalid value 0 for configuration tasks: Value must be at least 1"),
        ({"file": "a", "mode": "x"}, "Invalid value x for configuration mode: String must be one of: none, all"),
        ({"file": "a", "on": "1"}, "Invalid value 1 for configuration on: Expected value to be either true or false"),
    ],
)
def test_a_wrong_value_is_rejected_with_the_sentence_of_kafka(given: dict[str, str | None], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        parse(SETTINGS, given)
    assert any(sentence in error for found in check(SETTINGS, given) for error in found.errors)


def test_an_unknown_name_has_its_nearest() -> None:
    assert unknown(SETTINGS, {"fille": "a", "file": "b"}) == {
        "fille": "Unknown configuration 'fille', did you mean 'file'?"
    }
