"""The registry as Confluent's own clients see it, over real HTTP, with a real broker."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.confluent import meta_pb2
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool, message_factory
from google.type import money_pb2

from moldau.client.protocol.access import ClusterAccess
from moldau.products.compacted_topic import TopicError
from moldau.products.pipelines.formats.protobuf import ProtobufFormat
from moldau.products.pipelines.formats.registry import Registry
from moldau.products.proto_files import compile_protos
from moldau.products.registry.core.state import RegistryState
from moldau.products.registry.topic import SchemasTopic
from tests.support.cluster_under_test import cluster_under_test
from tests.support.schema_registry import SchemaRegistry

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "int"}]}
NEEDS_CITY = {**ORDER, "fields": [*ORDER["fields"], {"name": "city", "type": "string"}]}
HAS_CITY = {**ORDER, "fields": [*ORDER["fields"], {"name": "city", "type": "string", "default": ""}]}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with cluster_under_test() as servers:
        yield servers


@pytest.fixture
def topic() -> str:
    """The name of a new topic."""
    return f"schemas-{uuid.uuid4()}"


@pytest.fixture
def registry(servers: str, topic: str) -> Iterator[SchemaRegistry]:
    registry = SchemaRegistry(servers, topic)
    yield registry
    registry.close()


@pytest.fixture(scope="module")
def shared(servers: str) -> Iterator[SchemaRegistry]:
    """A shared registry, for tests that do not need an empty one."""
    registry = SchemaRegistry(servers, f"schemas-{uuid.uuid4()}")
    yield registry
    registry.close()


@pytest.fixture
def client(registry: SchemaRegistry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


def avro(schema: Any) -> Schema:
    return Schema(json.dumps(schema), "AVRO")


def ask(registry: SchemaRegistry, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """Status, and the response or its error code."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(registry.url + path, data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())["error_code"]


def read_records(servers: str, topic: str) -> list[tuple[bytes, bytes | None]]:
    """Without records that change nothing."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    found = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        found.append((message.key(), message.value()))
        if message.offset() >= end - 2:  # the last one is the marker of its transaction
            consumer.close()
            return [one for one in found if b"NOOP" not in one[0]]


# --- serializers ---


def test_what_confluent_s_serializers_register_their_deserializers_find(client: SchemaRegistryClient) -> None:
    at = SerializationContext("orders", MessageField.VALUE)
    written = AvroSerializer(client, json.dumps(ORDER))({"amount": 7}, at)
    assert AvroDeserializer(client)(written, at) == {"amount": 7}

    document = {"type": "object", "title": "Order", "properties": {"amount": {"type": "integer"}}}
    at = SerializationContext("documents", MessageField.VALUE)
    written = JSONSerializer(json.dumps(document), client)({"amount": 7}, at)
    assert JSONDeserializer(None, schema_registry_client=client)(written, at) == {"amount": 7}


def test_protobuf_s_imports_are_references(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    line = 'syntax = "proto3"; package registry.test; message Line { string item = 1; }'
    order = (
        'syntax = "proto3"; package registry.test; import "registry/line.proto"; '
        'import "google/protobuf/timestamp.proto"; message Order { Line line = 1; google.protobuf.Timestamp at = 2; }'
    )
    # a process has one pool for all files, and it may contain another test's order.proto
    for file in compile_protos({"registry/line.proto": line, "registry/order.proto": order}, "registry/order.proto"):
        descriptor_pool.Default().AddSerializedFile(file)
    message = descriptor_pool.Default().FindMessageTypeByName("registry.test.Order")
    order_class = message_factory.GetMessageClass(message)
    at = SerializationContext("messages", MessageField.VALUE)
    config = {"use.deprecated.format": False}
    written = ProtobufSerializer(order_class, client, config)(order_class(line={"item": "tea"}), at)
    assert ProtobufDeserializer(order_class, config, client)(written, at).line.item == "tea"
    schema = client.get_latest_version("messages-value").schema
    assert schema.references == [SchemaReference("registry/line.proto", "registry/line.proto", 1)]
    assert schema.schema_str.startswith('syntax = "proto3";\npackage registry.test;\nimport "registry/line.proto";')
    body = {"schema": order, "schemaType": "PROTOBUF", "references": [one.to_dict() for one in schema.references]}
    assert ask(registry, "POST", "/subjects/messages-value", body)[1]["version"] == 1


def test_types_that_registries_bring_need_no_reference(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    """As Confluent's serializer sends them. A pipeline reads the values with the registry's schema."""
    text = (
        'syntax = "proto3"; package registry.test; import "google/type/money.proto"; import "confluent/meta.proto"; '
        'message Paid { google.type.Money total = 1 [(confluent.field_meta).doc = "gross"]; }'
    )
    descriptor_pool.Default().AddSerializedFile(meta_pb2.DESCRIPTOR.serialized_pb)
    descriptor_pool.Default().AddSerializedFile(money_pb2.DESCRIPTOR.serialized_pb)
    (*_, file) = compile_protos({"registry/paid.proto": text}, "registry/paid.proto")
    descriptor_pool.Default().AddSerializedFile(file)
    paid = message_factory.GetMessageClass(descriptor_pool.Default().FindMessageTypeByName("registry.test.Paid"))
    at = SerializationContext("paid", MessageField.VALUE)
    serialize = ProtobufSerializer(paid, client, {"use.deprecated.format": False})
    written = serialize(paid(total={"currency_code": "CZK", "units": 7}), at)
    schema = client.get_latest_version("paid-value").schema
    assert not schema.references
    assert '(.confluent.field_meta) = { doc: "gross" }' in str(schema.schema_str)
    values = ProtobufFormat(registry=Registry(registry.url), subject="paid-value").values()
    (row,) = values(pa.array([written], pa.binary())).to_pylist()
    assert row == {"total": {"currency_code": "CZK", "units": 7, "nanos": 0}, "_moldau_corrupt": None}


# --- versions, ids, levels ---


def test_equal_schemas_have_one_id_and_other_ones_the_next(client: SchemaRegistryClient) -> None:
    first = client.register_schema("a", avro(ORDER))
    with_spaces = Schema(json.dumps(ORDER, indent=2), "AVRO")
    assert client.register_schema("a", with_spaces) == client.register_schema("b", avro(ORDER)) == first
    assert client.register_schema("a", avro(HAS_CITY)) == first + 1
    assert client.get_versions("a") == [1, 2]
    assert client.lookup_schema("a", with_spaces).version == 1
    assert [(one.subject, one.version) for one in client.get_schema_versions(first)] == [("a", 1), ("b", 1)]
    assert client.get_subjects() == ["a", "b"]


@pytest.mark.parametrize(
    ("level", "may_need_city", "may_lose_amount"),
    [("NONE", True, True), ("BACKWARD", False, True), ("FORWARD", True, False), ("FULL", False, False)],
)
def test_a_level_says_which_schemas_may_follow(
    shared: SchemaRegistry, level: str, may_need_city: bool, may_lose_amount: bool
) -> None:
    client = SchemaRegistryClient({"url": shared.url})
    client.set_compatibility(level, level)
    client.register_schema(level, avro(ORDER))
    assert client.test_compatibility(level, avro(NEEDS_CITY)) is may_need_city
    assert client.test_compatibility(level, avro({**ORDER, "fields": []})) is may_lose_amount


def test_a_transitive_level_asks_all_versions(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    optional = {**HAS_CITY, "fields": [{"name": "city", "type": "string", "default": ""}]}
    for schema in (ORDER, HAS_CITY, optional):
        client.register_schema("a", avro(schema))
    needs = {**ORDER, "fields": [{"name": "city", "type": "string"}]}
    assert client.test_compatibility_all_versions("a", avro(needs)) is True
    client.set_compatibility("a", "BACKWARD_TRANSITIVE")
    assert client.test_compatibility_all_versions("a", avro(needs)) is False
    body = {"schema": json.dumps(needs)}
    status, told = ask(registry, "POST", "/compatibility/subjects/a/versions?verbose=true", body)
    assert (status, told["messages"]) == (200, ["it cannot read version 1: city (at /fields/0)"])
    assert ask(registry, "POST", "/subjects/a/versions", body) == (409, 409)


def test_levels_are_set_for_one_subject_or_all(registry: SchemaRegistry) -> None:
    assert ask(registry, "GET", "/config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert ask(registry, "PUT", "/config", {"compatibility": "full"}) == (200, {"compatibility": "FULL"})
    assert ask(registry, "GET", "/config/a") == (404, 40408)
    assert ask(registry, "GET", "/config/a?defaultToGlobal=true") == (200, {"compatibilityLevel": "FULL"})
    assert ask(registry, "PUT", "/config/a", {"compatibility": "NONE"}) == (200, {"compatibility": "NONE"})
    assert ask(registry, "DELETE", "/config/a") == (200, {"compatibilityLevel": "NONE"})
    assert ask(registry, "DELETE", "/config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert ask(registry, "GET", "/config/a?defaultToGlobal=true") == (200, {"compatibilityLevel": "BACKWARD"})


# --- deletion ---


def test_a_soft_deleted_schema_is_read_by_its_id_and_a_hard_deleted_one_is_not(
    registry: SchemaRegistry, client: SchemaRegistryClient
) -> None:
    first, second = client.register_schema("a", avro(ORDER)), client.register_schema("a", avro(HAS_CITY))
    assert ask(registry, "DELETE", "/subjects/a/versions/2?permanent=true") == (404, 40407)
    assert client.delete_version("a", 2) == 2
    assert ask(registry, "DELETE", "/subjects/a/versions/2") == (404, 40406)
    assert ask(registry, "GET", "/subjects/a/versions/latest")[1]["version"] == 1
    assert ask(registry, "GET", "/subjects/a/versions?deleted=true") == (200, [1, 2])
    assert ask(registry, "GET", f"/schemas/ids/{second}")[0] == 200
    assert ask(registry, "DELETE", "/subjects/a?permanent=true") == (404, 40405)
    assert client.delete_subject("a") == [1]
    assert ask(registry, "DELETE", "/subjects/a") == (404, 40404)
    assert (client.get_subjects(), ask(registry, "GET", "/subjects/a/versions")) == ([], (404, 40401))
    assert ask(registry, "DELETE", "/subjects/a?permanent=true") == (200, [1, 2])
    assert ask(registry, "GET", f"/schemas/ids/{first}") == (404, 40403)
    assert client.register_schema("a", avro(NEEDS_CITY)) == second + 1
    assert client.get_versions("a") == [1]


def test_what_others_refer_to_is_not_deleted(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    client.register_schema("line", avro({"type": "record", "name": "Line", "fields": []}))
    order = {"type": "record", "name": "Order", "fields": [{"name": "line", "type": "Line"}]}
    referring = Schema(json.dumps(order), "AVRO", [SchemaReference("Line", "line", 1)])
    schema_id = client.register_schema("order", referring)
    assert client.get_schema(schema_id).references == [SchemaReference("Line", "line", 1)]
    assert ask(registry, "GET", "/subjects/line/versions/1/referencedby") == (200, [schema_id])
    assert ask(registry, "DELETE", "/subjects/line") == (422, 42206)
    assert ask(registry, "POST", "/subjects/order/versions", {"schema": json.dumps(order)}) == (422, 42201)


def test_what_a_deleted_schema_refers_to_is_not_deleted_for_good(registry: SchemaRegistry) -> None:
    line = {"schema": '{"type": "record", "name": "Line", "fields": []}'}
    order = {
        "schema": '{"type": "record", "name": "Order", "fields": [{"name": "line", "type": "Line"}]}',
        "references": [{"name": "Line", "subject": "line", "version": -1}],
    }
    ask(registry, "POST", "/subjects/line/versions", line)
    schema_id = ask(registry, "POST", "/subjects/order/versions", order)[1]["id"]
    assert ask(registry, "DELETE", "/subjects/order") == (200, [1])
    assert ask(registry, "DELETE", "/subjects/line") == (200, [1])
    referring = "/subjects/line/versions/1/referencedby"
    assert (ask(registry, "GET", referring), ask(registry, "GET", f"{referring}?deleted=true")) == (
        (200, []),
        (200, [schema_id]),
    )
    assert ask(registry, "DELETE", "/subjects/line?permanent=true") == (422, 42206)
    assert ask(registry, "DELETE", "/subjects/line/versions/1?permanent=true") == (422, 42206)
    assert ask(registry, "DELETE", "/subjects/order?permanent=true") == (200, [1])
    assert ask(registry, "DELETE", "/subjects/line?permanent=true") == (200, [1])


# --- lists ---


@pytest.fixture(scope="module")
def listed(servers: str) -> Iterator[SchemaRegistry]:
    """The subjects a (version 1 deleted, version 2 present), b (deleted) and c; one id for the first of each."""
    registry = SchemaRegistry(servers, f"schemas-{uuid.uuid4()}")
    for subject in ("a", "b", "c"):
        ask(registry, "POST", f"/subjects/{subject}/versions", {"schema": '"string"'})
    ask(registry, "POST", "/subjects/a/versions", {"schema": '"bytes"'})
    ask(registry, "DELETE", "/subjects/a/versions/1")
    ask(registry, "DELETE", "/subjects/b")
    yield registry
    registry.close()


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/subjects", ["a", "c"]),
        ("/subjects?deleted=true", ["a", "b", "c"]),
        ("/subjects?deletedOnly=true", ["b"]),
        ("/subjects?deleted=true&deletedOnly=true", ["b"]),
        ("/subjects?deleted=true&offset=1&limit=1", ["b"]),
        ("/subjects?offset=1", ["c"]),
        ("/subjects?limit=0", []),
        ("/subjects?limit=-1", ["a", "c"]),
        ("/subjects?offset=5&limit=5", []),
        ("/subjects/a/versions", [2]),
        ("/subjects/a/versions?deletedOnly=true", [1]),
        ("/subjects/a/versions?deletedAsNegative=true", [-1, 2]),
        ("/subjects/a/versions?deleted=true&offset=1", [2]),
        ("/subjects/c/versions?deletedOnly=true", []),
        ("/schemas/ids/1/subjects", ["c"]),
        ("/schemas/ids/1/subjects?deleted=true&limit=2", ["a", "b"]),
        ("/schemas/ids/1/subjects?deleted=true&subject=b", ["b"]),
        ("/schemas/ids/1/subjects?subject=other", []),
        ("/schemas/ids/1/versions?deleted=true&subject=a", [{"subject": "a", "version": 1}]),
        ("/schemas/ids/1/versions?deleted=true&offset=2", [{"subject": "c", "version": 1}]),
        ("/schemas?latestOnly=true&limit=1", [{"subject": "a", "version": 2, "id": 2, "schema": '"bytes"'}]),
        ("/schemas?deleted=true&subjectPrefix=b", [{"subject": "b", "version": 1, "id": 1, "schema": '"string"'}]),
        ("/contexts", ["."]),
    ],
)
def test_lists_are_filtered_and_paged(listed: SchemaRegistry, path: str, found: object) -> None:
    assert ask(listed, "GET", path) == (200, found)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/subjects?deletedOnyl=true", "deletedOnyl"),
        ("/subjects?limit=many", "limit"),
        ("/subjects?offset=-1", "offset"),
        ("/subjects/a/versions/2?findTags=pii", "findTags"),
        ("/schemas/ids/1?fetchMaxId=true", "fetchMaxId"),
        ("/schemas?ruleType=CEL", "ruleType"),
    ],
)
def test_a_parameter_that_is_not_served_is_refused_by_name(listed: SchemaRegistry, path: str, name: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(listed.url + path, timeout=30)
    with refused.value as answer:
        told = json.loads(answer.read())
    assert (answer.status, told["error_code"], name in told["message"]) == (400, 400, True)


# --- refusals ---


def named_by_reference(name: str) -> dict[str, object]:
    """A schema that refers to another by this name."""
    references = [{"name": name, "subject": "there", "version": 1}]
    return {"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF", "references": references}


@pytest.mark.parametrize(
    ("method", "path", "body", "refusal"),
    [
        ("GET", "/subjects/none/versions/1", None, (404, 40401)),
        ("GET", "/subjects/there/versions/9", None, (404, 40402)),
        ("GET", "/subjects/there/versions/first", None, (422, 42202)),
        ("GET", "/schemas/ids/999", None, (404, 40403)),
        ("GET", f"/schemas/ids/{'9' * 5_000}", None, (404, 40403)),
        ("GET", "/schemas/ids/first", None, (404, 40403)),
        ("POST", "/subjects/there", {"schema": '"int"'}, (404, 40403)),
        ("POST", "/subjects/none", {"schema": '"int"'}, (404, 40401)),
        ("POST", "/subjects/there/versions", {"schema": "{"}, (422, 42201)),
        ("POST", "/subjects/there/versions", {}, (422, 42201)),
        ("POST", "/subjects/there/versions", {"schema": '"int"', "ruleSet": {"domainRules": []}}, (422, 42201)),
        ("POST", "/subjects/there/versions", {"schema": '"int"', "schemaType": "XML"}, (422, 42201)),
        ("POST", "/subjects/there/versions", {"schema": " " * 1_000_000}, (422, 42209)),
        ("POST", "/subjects/there/versions", {"schema": "\ud800", "schemaType": "PROTOBUF"}, (422, 42201)),
        ("POST", "/subjects/there/versions", {"schema": '{"title": "\\ud800"}', "schemaType": "JSON"}, (422, 42201)),
        ("POST", "/subjects/there/versions", named_by_reference("\0"), (422, 42201)),
        ("POST", "/subjects/:.context:a/versions", {"schema": '"int"'}, (422, 42208)),
        ("POST", "/subjects/there/versions", {"schema": '"int"', "id": 7}, (422, 42201)),
        ("POST", "/subjects/there/versions?normalize=true", {"schema": '"int"'}, (400, 400)),
        ("POST", "/subjects/there?normalize=False", {"schema": '"int"'}, (404, 40403)),
        ("GET", "/schemas/ids/1?subject=:.context:", None, (422, 42208)),
        ("PUT", "/config", {"compatibility": "SOME"}, (422, 42203)),
        ("PUT", "/config", {"compatibility": "FULL", "compatibilityGroup": "app"}, (400, 400)),
        ("PUT", "/mode", {"mode": "IMPORT"}, (405, 405)),
        ("PATCH", "/subjects/there", None, (405, 405)),
        ("GET", "/mode/there", None, (404, 40409)),
        ("GET", "/nothing", None, (404, 404)),
    ],
)
def test_a_refusal_has_the_established_code(
    shared: SchemaRegistry, method: str, path: str, body: object, refusal: tuple[int, int]
) -> None:
    assert ask(shared, "POST", "/subjects/there/versions", {"schema": '"string"'})[0] == 200
    assert ask(shared, method, path, body) == refusal


def test_a_request_that_is_not_admitted_is_refused_in_json(shared: SchemaRegistry) -> None:
    """By the name of another machine, as a page of another site would ask."""
    request = urllib.request.Request(f"{shared.url}/subjects", headers={"Host": "registry.example.com"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=30)
    with refused.value as answer:
        assert json.loads(answer.read())["error_code"] == 40301


def test_a_body_of_too_many_levels_is_refused(shared: SchemaRegistry) -> None:
    request = urllib.request.Request(f"{shared.url}/subjects/a/versions", b"[" * 100_000, method="POST")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=30)
    with refused.value as answer:
        assert json.loads(answer.read())["error_code"] == 42201


def test_who_looks_for_long_keeps_nobody_waiting(registry: SchemaRegistry) -> None:
    began, may_end = threading.Event(), threading.Event()

    def look(_: RegistryState) -> bool:
        began.set()
        return may_end.wait(60)

    looking = threading.Thread(target=registry.topic.look, args=(look,))
    looking.start()
    try:
        assert began.wait(30)
        assert ask(registry, "POST", "/subjects/a/versions", {"schema": '"int"'}) == (200, {"id": 1})
        assert ask(registry, "GET", "/subjects") == (200, ["a"])
    finally:
        may_end.set()
        looking.join(60)


def test_a_refused_schema_leaves_no_transaction_open(registry: SchemaRegistry) -> None:
    half_a_pair = {"schema": '{"type": "record", "name": "R", "doc": "\\ud800", "fields": []}'}
    assert ask(registry, "POST", "/subjects/a/versions", half_a_pair) == (422, 42201)
    assert ask(registry, "POST", "/subjects/a/versions", {"schema": '"int"'}) == (200, {"id": 1})


def test_a_subject_may_have_any_letters(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    client.register_schema("a/b versions/č", avro(ORDER))
    assert client.get_versions("a/b versions/č") == [1]
    assert ask(registry, "GET", "/subjects?subjectPrefix=a%2F") == (200, ["a/b versions/č"])


def test_a_topic_that_would_lose_schemas_is_refused(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for name, partitions, policy in ((f"{topic}-1", 2, "compact"), (f"{topic}-2", 1, "delete")):
        admin.create_topics([NewTopic(name, partitions, 1, config={"cleanup.policy": policy})])[name].result(30)
    with pytest.raises(TopicError, match="has 2 partitions"):
        SchemasTopic(ClusterAccess(servers), f"{topic}-1")
    with pytest.raises(TopicError, match=r"has cleanup\.policy=delete"):
        SchemasTopic(ClusterAccess(servers), f"{topic}-2")


# --- the topic ---


def test_records_are_those_of_the_established_registry(
    registry: SchemaRegistry, client: SchemaRegistryClient, servers: str, topic: str
) -> None:
    client.register_schema("a", Schema('"int"', "AVRO"))
    client.register_schema("j", Schema("{}", "JSON"))
    client.set_compatibility("a", "NONE")
    client.delete_subject("a")
    client.delete_version("j", 1)
    client.delete_version("j", 1, permanent=True)
    assert read_records(servers, topic) == [
        (
            b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}',
            b'{"subject":"a","version":1,"id":1,"schema":"\\"int\\""}',
        ),
        (
            b'{"keytype":"SCHEMA","subject":"j","version":1,"magic":1}',
            b'{"subject":"j","version":1,"id":2,"schema":"{}","schemaType":"JSON"}',
        ),
        (b'{"keytype":"CONFIG","subject":"a","magic":0}', b'{"compatibilityLevel":"NONE"}'),
        (b'{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}', b'{"subject":"a","version":1}'),
        (
            b'{"keytype":"SCHEMA","subject":"j","version":1,"magic":1}',
            b'{"subject":"j","version":1,"id":2,"schema":"{}","schemaType":"JSON","deleted":true}',
        ),
        (b'{"keytype":"SCHEMA","subject":"j","version":1,"magic":1}', None),
    ]


def test_records_of_the_established_registry_are_read(servers: str, topic: str) -> None:
    """As newer registries write them, with fields and kinds of records without a meaning here."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 1, 1, config={"cleanup.policy": "compact"})])[topic].result(30)
    producer = Producer({"bootstrap.servers": servers})
    for key, value in (
        ('{"keytype":"NOOP","magic":0}', None),
        (
            '{"keytype":"SCHEMA","subject":"a-value","version":3,"magic":1}',
            '{"subject":"a-value","version":3,"id":41,"md5":"AAAA","schema":"\\"int\\"","deleted":false,'
            '"offset":1,"ts":1700000000000}',
        ),
        ('{"keytype":"CONFIG","subject":null,"magic":0}', '{"compatibilityLevel":"FULL","normalize":true}'),
        ('{"keytype":"MODE","subject":"closed","magic":0}', '{"mode":"READONLY"}'),
        ('{"keytype":"CONTEXT","tenant":"default","context":".","magic":0}', "{}"),
        ("no JSON", "at all"),
        (b'{"keytype":"SCHEMA","subject":"\xff","version":1,"magic":1}', b"{}"),
        (
            '{"keytype":"SCHEMA","subject":"deep","version":1,"magic":1}',
            '{"subject":"deep","version":1,"id":50,"schema":"1","metadata":' + "[" * 100_000,
        ),
    ):
        producer.produce(topic, value, key)
    assert producer.flush(30) == 0
    registry = SchemaRegistry(servers, topic)
    try:
        client = SchemaRegistryClient({"url": registry.url})
        latest = client.get_latest_version("a-value")
        assert (latest.version, latest.schema_id, client.get_compatibility()) == (3, 41, "FULL")
        assert client.register_schema("b-value", avro(ORDER)) == 42
        assert ask(registry, "GET", "/mode/closed") == (200, {"mode": "READONLY"})
        assert ask(registry, "POST", "/subjects/closed/versions", {"schema": '"int"'}) == (422, 42205)
        client.delete_version("a-value", 3)
        (value,) = (value for key, value in read_records(servers, topic)[-1:])
        assert value is not None
        assert json.loads(value)["md5"] == "AAAA"
    finally:
        registry.close()


def test_a_registry_that_starts_anew_knows_what_was_written(servers: str, topic: str) -> None:
    first = SchemaRegistry(servers, topic)
    SchemaRegistryClient({"url": first.url}).register_schema("a", avro(ORDER))
    first.close()
    again = SchemaRegistry(servers, topic)
    assert ask(again, "GET", "/subjects/a/versions/1/schema") == (200, ORDER)
    again.close()


def test_registries_beside_one_another_never_give_one_id_twice(
    registry: SchemaRegistry, servers: str, topic: str
) -> None:
    other = SchemaRegistry(servers, topic)
    ids: dict[str, int] = {}

    def register(at: SchemaRegistry, name: str) -> None:
        client = SchemaRegistryClient({"url": at.url})
        for number in range(10):
            subject = f"{name}{number}"
            ids[subject] = client.register_schema(subject, avro({"type": "fixed", "name": subject, "size": 8}))

    threads = [threading.Thread(target=register, args=one) for one in ((registry, "a"), (other, "b"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(ids.values()) == list(range(1, 21))
    third = SchemaRegistry(servers, topic)
    for subject, schema_id in ids.items():
        assert ask(third, "GET", f"/subjects/{subject}/versions/1")[1]["id"] == schema_id
    third.close()
    other.close()
