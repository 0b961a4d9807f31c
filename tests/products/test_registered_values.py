"""Keys and values by the schemas of a registry in readable form: in `consume`, and in the console."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from google.protobuf import descriptor_pool, message_factory

from moldau.cli.main import main
from moldau.products.console.tail import show_record
from moldau.products.pipelines.formats.registry import RegistryError
from moldau.products.proto_files import compile_protos
from moldau.products.registered_values import RegisteredValues
from moldau.testing import Cluster
from tests.support.schema_registry import SchemaRegistry
from tests.support.talking_process import line_of, running

PROTO = """syntax = "proto3"; package shop; import "place.proto";
message First { string no = 1; }
message Order { message Line { string name = 1; int64 count = 2; } repeated Line lines = 1; place.Place at = 2; }
"""
PLACE = 'syntax = "proto3"; package place; message Place { string city = 1; }'


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as started:
        yield started


@pytest.fixture(scope="module")
def registry(cluster: Cluster) -> Iterator[SchemaRegistry]:
    started = SchemaRegistry(cluster.bootstrap_servers)
    yield started
    started.close()


def headed(schema_id: int, data: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + data


def register(registry: SchemaRegistry, subject: str, text: str, kind: str, *references: SchemaReference) -> int:
    client = SchemaRegistryClient({"url": registry.url})
    return client.register_schema(subject, Schema(text, kind, list(references)))


def avro(registry: SchemaRegistry, subject: str, schema: Any) -> int:
    return register(registry, subject, json.dumps(schema), "AVRO")


@pytest.mark.parametrize(
    ("schema", "data", "value"),
    [
        ("string", b"\x06ann", "ann"),
        ("bytes", b"\x02\xff", {"base64": "/w=="}),
        ("double", b"\0\0\0\0\0\0\xf8\x7f", "nan"),
        (["null", "long"], b"\0", None),
        ({"type": "int", "logicalType": "date"}, b"\x02", "1970-01-02"),
        ({"type": "array", "items": "int"}, b"\x04\x02\x04\0", [1, 2]),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, b"\x04\x04\xd2", "12.34"),
    ],
)
def test_avro_is_shown_as_json(registry: SchemaRegistry, schema: Any, data: bytes, value: object) -> None:
    schema_id = avro(registry, f"avro-{schema}-value".replace(" ", ""), schema)
    found = RegisteredValues(registry.url).decoded(headed(schema_id, data))
    assert found is not None
    assert found.value == value


def test_a_protobuf_message_is_found_at_its_place_in_a_schema_with_imports(registry: SchemaRegistry) -> None:
    register(registry, "place.proto", PLACE, "PROTOBUF")
    schema_id = register(registry, "orders-value", PROTO, "PROTOBUF", SchemaReference("place.proto", "place.proto", 1))
    pool = descriptor_pool.DescriptorPool()
    for file in compile_protos({"place.proto": PLACE, "order.proto": PROTO}, "order.proto"):
        pool.AddSerializedFile(file)
    order = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    data = order(lines=[{"name": "tea", "count": 2}], at={"city": "Ulm"}).SerializeToString()
    values = RegisteredValues(registry.url)
    found = values.decoded(headed(schema_id, b"\x02\x02" + data))  # one number: the second message
    assert found is not None
    assert found.value == {"lines": [{"name": "tea", "count": "2"}], "at": {"city": "Ulm"}}
    inner = values.decoded(headed(schema_id, b"\x04\x02\x00" + b"\x0a\x03tea"))  # its first inner one
    assert inner is not None
    assert inner.value == {"name": "tea", "count": "0"}
    first = values.decoded(headed(schema_id, b"\0"))
    assert first is not None
    assert first.value == {"no": ""}


def test_what_no_schema_explains_stays_as_it_is(registry: SchemaRegistry) -> None:
    schema_id = avro(
        registry, "few-value", {"type": "record", "name": "Few", "fields": [{"name": "a", "type": "long"}]}
    )
    values = RegisteredValues(registry.url)
    odd = [
        None,
        b"",
        b"plain",
        b"\0\0\0",
        headed(9_999, b"\x02"),
        headed(schema_id, b""),
        headed(schema_id, b"\x02\x02"),
    ]
    assert [values.decoded(data) for data in odd] == [None] * len(odd)
    asked = registry.asked.count("/schemas/ids/9999")
    assert values.decoded(odd[4]) is None
    assert registry.asked.count("/schemas/ids/9999") == asked == 1  # not for each record


def test_consume_and_the_page_decode_by_the_registry(
    cluster: Cluster, registry: SchemaRegistry, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    schema_id = avro(
        registry, "sales-value", {"type": "record", "name": "Sale", "fields": [{"name": "who", "type": "string"}]}
    )
    topic = cluster.topic("sales")
    cluster.produce(topic, headed(schema_id, b"\x06ann"), "plain", None, key="k")
    words = ["consume", topic, "-b", cluster.bootstrap_servers, "--from", "beginning", "--until-end"]
    assert main([*words, "--keys", "--registry", registry.url]) == 0
    assert capfdbinary.readouterr().out == b'k\t{"who": "ann"}\nk\tplain\nk\tnull\n'
    assert main([*words, "--json", "--registry", registry.url.removeprefix("http://")]) == 0
    read = [json.loads(line)["value"] for line in capfdbinary.readouterr().out.splitlines()]
    assert read == [{"who": "ann"}, "plain", None]
    shown = show_record(Message(headed(schema_id, b"\x06ann")), RegisteredValues(registry.url))
    assert (shown.value.text, shown.value.kind, shown.value.size) == ('{"who": "ann"}', "json", 9)


class Message:
    """As confluent-kafka gives one."""

    def __init__(self, value: bytes) -> None:
        self._value = value

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes:
        return self._value

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 0, -1

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 0


def test_an_absent_registry_is_named_in_a_sentence() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(RegistryError) as refused:
            RegisteredValues(url).check(timeout_ms=1)
    assert str(refused.value) == f"the schema registry {url} does not answer: connection refused (tried for 0.001 s)"


@pytest.mark.slow
def test_up_serves_a_registry_by_which_its_page_decodes() -> None:
    words = ["up", "--in-memory", "--listen", "127.0.0.1:0", "--registry", "0", "--set", "moldau.http.listener="]
    command = [sys.executable, "-m", "moldau.cli.main", *words, "--console-port", "0"]
    with running(command, stdout=subprocess.PIPE) as process:
        told = line_of(process.stdout)
        while not told.startswith("ready ") and "\nready " not in told:
            told += line_of(process.stdout)
        found = re.search(r"^  registry   (http://127.0.0.1:\d+/)$", told, re.MULTILINE)
        assert found is not None
        client = SchemaRegistryClient({"url": found[1]})
        assert client.register_schema("s-value", Schema('"string"', "AVRO")) == 1
        assert client.get_subjects() == ["s-value"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
