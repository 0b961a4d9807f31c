"""Flags are read as Kafka's tools read them, which differs from argparse."""

from __future__ import annotations

import pytest

from moldau.cli.kafka.configs import java_double
from moldau.cli.kafka.get_offsets import parse_rule
from moldau.cli.kafka.options import ArgumentError, Option, parse
from moldau.cli.kafka.topics import parse_replica_assignment
from moldau.types import TopicPartition

OPTIONS = (
    Option("topic", "", "topic"),
    Option("state", "", "state", is_argument_optional=True),
    Option("count", "", "n", kind="int"),
    Option("list", ""),
    Option("bootstrap-server", "", "server", short="b"),
    Option("ignore-formatted", "", short="g"),
)


def test_a_value_follows_as_a_word_or_after_an_equals_sign() -> None:
    assert parse(OPTIONS, ["--topic", "a"]).text("topic") == "a"
    assert parse(OPTIONS, ["--topic=a=b"]).text("topic") == "a=b"
    assert parse(OPTIONS, ["--topic", "--list"]).text("topic") == "--list"


def test_one_dash_stands_before_a_whole_name_too() -> None:
    arguments = parse(OPTIONS, ["-topic", "a", "-list", "-count=3"])
    assert (arguments.text("topic"), arguments.integer("count"), arguments.has("list")) == ("a", 3, True)


def test_letters_after_one_dash_are_flags_and_the_last_one_takes_the_value() -> None:
    for words in (["-g", "-b", "host:1"], ["-gbhost:1"], ["-gb", "host:1"]):
        arguments = parse(OPTIONS, [*words, "describe"])
        assert arguments.in_order == [("ignore-formatted", None), ("bootstrap-server", "host:1")]
        assert arguments.words == ["describe"]


def test_an_optional_value_is_not_the_next_flag() -> None:
    arguments = parse(OPTIONS, ["--state", "--list"])
    assert arguments.has("state", "list")
    assert arguments.text("state") is None
    assert parse(OPTIONS, ["--state", "Empty"]).text("state") == "Empty"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--lis"], "lis is not a recognized option"),
        (["-x"], "x is not a recognized option"),
        (["-lis"], "l is not a recognized option"),
        (["-gx"], "x is not a recognized option"),
        (["--topic"], "Option topic requires an argument"),
        (["--list=yes"], "Option list does not take an argument"),
    ],
)
def test_what_cannot_be_read_is_said_as_kafka_says_it(words: list[str], sentence: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse(OPTIONS, words)
    assert str(caught.value) == sentence


def test_numbers_have_the_size_of_javas() -> None:
    assert parse(OPTIONS, ["--count", "-5"]).integer("count") == -5
    for text in ("x", "2147483648", "", "1.0"):
        with pytest.raises(ArgumentError):
            parse(OPTIONS, [f"--count={text}", text or "y"]).integer("count")


def test_a_flag_with_one_value_is_not_given_twice() -> None:
    arguments = parse(OPTIONS, ["--topic", "a", "--topic", "b", "extra", "--", "--foo"])
    assert arguments.texts("topic") == ["a", "b"]
    with pytest.raises(ArgumentError, match="multiple arguments"):
        arguments.text("topic")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (1000.0, "1000.0"),
        (1e7, "1.0E7"),
        (1.25e8, "1.25E8"),
        (123456789.0, "1.23456789E8"),
        (1e-4, "1.0E-4"),
    ],
)
def test_numbers_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert java_double(value) == text


def test_a_rule_for_partitions_has_open_ends() -> None:
    def chosen(rule: str) -> list[int]:
        return [number for number in range(6) if parse_rule(rule)(TopicPartition("t", number))]

    assert chosen("t") == [0, 1, 2, 3, 4, 5]
    assert chosen("t:2") == [2]
    assert chosen("t:1-3") == [1, 2]
    assert chosen("t:4-") == [4, 5]
    assert chosen(":-2") == [0, 1]
    assert chosen("u") == []


def test_replicas_of_a_partition_are_separated_by_colons() -> None:
    assert parse_replica_assignment("1:2,2:3") == [[1, 2], [2, 3]]
    for text in ("1:1", "1:2,3", "a"):
        with pytest.raises(ArgumentError):
            parse_replica_assignment(text)


@pytest.mark.parametrize(
    ("word", "number"), [("-1", "-1"), ("7", "7"), ("+7", "+7"), ("x", None), ("--other", None), ("-o", None)]
)
def test_a_number_that_may_be_left_out_may_be_negative(word: str, number: str | None) -> None:
    options = (
        Option("period", "", "Long", is_argument_optional=True, kind="long"),
        Option("other", "", short="o"),
    )
    arguments = parse(options, ["--period", word])
    assert arguments.has("period")
    assert arguments.text("period") == number
