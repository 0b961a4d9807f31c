"""`moldau produce` writes keys and values for Kafka's deserializers, and `moldau consume` shows them as they were."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.serialization import DoubleDeserializer, IntegerDeserializer, StringDeserializer

from moldau.testing import Cluster

UUID = "123e4567-e89b-12d3-a456-426614174000"
TEXTS = {
    "string": ["Glück", "x"],
    "integer": ["-7", "2147483647"],
    "long": ["0", "-9223372036854775808"],
    "double": ["1.5", "NaN"],
    "uuid": [UUID, UUID.replace("1", "f")],
    "bytes": ["AP8K", "AAAABwo="],
    "json": ['{"a": 1.10}', '"text"'],
}


def moldau(cluster: Cluster, *words: str, text: str = "", code: int = 0) -> str:
    """Its output; its messages if it fails."""
    command = [sys.executable, "-m", "moldau.cli.main", *words, "-b", cluster.bootstrap_servers]
    done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=60, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return (done.stderr if code else done.stdout).decode()


def kcat(cluster: Cluster, topic: str, *words: str) -> str:
    command = ["kcat", "-b", cluster.bootstrap_servers, "-C", "-t", topic, "-e", "-q", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", TEXTS)
def test_what_is_produced_in_a_format_is_consumed_as_the_same_text(moldau_cluster: Cluster, name: str) -> None:
    topic, copy = moldau_cluster.topic(), moldau_cluster.topic()
    formats = ("--key-format", name, "--value-format", name)
    first, second = TEXTS[name]
    lines = f"{first}\t{second}\n{second}\t{first}\n~\t~\n"
    moldau(moldau_cluster, "produce", topic, "--key-separator", "\t", "--null", "~", *formats, text=lines)
    read = ("--from", "beginning", "--until-end", *formats)
    assert moldau(moldau_cluster, "consume", topic, "--keys", "--null", "~", *read) == lines
    shown = moldau(moldau_cluster, "consume", topic, "--json", *read)
    moldau(moldau_cluster, "produce", copy, "--json", *formats, text=shown)
    assert moldau(moldau_cluster, "consume", copy, "--keys", "--null", "~", *read).count("\n") == 3
    if name != "json":  # whose lines are written again without the first one's spaces
        written, again = ([(r.key, r.value) for r in moldau_cluster.records(one)] for one in (topic, copy))
        assert again == written
    assert json.loads(shown.splitlines()[2])["value"] is None


def test_kcat_unpacks_integers_and_longs(moldau_cluster: Cluster) -> None:
    topic = moldau_cluster.topic()
    formats = ("--key-format", "integer", "--value-format", "long")
    moldau(moldau_cluster, "produce", topic, "--key-separator", ":", *formats, text="-7:9000000000\n2147483647:-1\n")
    assert (
        kcat(moldau_cluster, topic, "-s", "key=>i$", "-s", "value=>q$", "-K", ":") == "-7:9000000000\n2147483647:-1\n"
    )


def test_confluents_deserializers_read_what_was_produced(moldau_cluster: Cluster) -> None:
    topic = moldau_cluster.topic()
    moldau(
        moldau_cluster, "produce", topic, "--key", "-7", "--key-format", "integer", "--value-format", "double", "2.5e-3"
    )
    moldau(
        moldau_cluster, "produce", topic, "--key", UUID.upper(), "--key-format", "uuid", "--value-format", "json", "[1]"
    )
    consumer = Consumer({"bootstrap.servers": moldau_cluster.bootstrap_servers, "group.id": "formats"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    number, text = consumer.consume(2, 30)
    consumer.close()
    assert (IntegerDeserializer()(number.key()), DoubleDeserializer()(number.value())) == (-7, 0.0025)
    assert (StringDeserializer()(text.key()), json.loads(text.value())) == (UUID, [1])


def test_a_bad_value_ends_the_command_with_the_number_of_its_line(moldau_cluster: Cluster) -> None:
    topic = moldau_cluster.topic()
    produce = ("produce", topic, "--value-format", "long")
    told = moldau(moldau_cluster, *produce, "--key-separator", ":", text="a:1\nb:2\nc:x\nd:4\n", code=1)
    assert told.startswith("moldau: line 3: the value 'x' is not a long (from -9223372036854775808 to ")
    assert told.endswith(f" (2 records written to {topic})\n")
    assert [record.key for record in moldau_cluster.records(topic)] == [b"a", b"b"]
    told = moldau(moldau_cluster, *produce, "5", "6.5", code=1)
    assert told.startswith("moldau: record 2: the value '6.5' is not a long")
    told = moldau(moldau_cluster, *produce, "--json", text='{"value": 1}\n{"value": true}\n', code=1)
    assert told.startswith("moldau: line 2: the value true is not a long")
    told = moldau(moldau_cluster, *produce, "--key", "x", "--key-format", "uuid", "7", code=1)
    assert told.startswith("moldau: the key 'x' is not a UUID")
    assert len(list(moldau_cluster.records(topic))) == 4


@pytest.mark.slow
def test_consume_names_the_record_that_is_not_of_its_format(moldau_cluster: Cluster) -> None:
    topic = moldau_cluster.topic()
    moldau_cluster.produce(topic, b"\x00\x00\x00\x05")
    moldau_cluster.produce(topic, b"text?")
    read = ("consume", topic, "--from", "beginning", "--until-end", "--value-format", "integer")
    told = moldau(moldau_cluster, *read, code=1)
    assert told == f"moldau: {topic}-0 at 1: the value has 5 bytes, but an integer has 4\n"
