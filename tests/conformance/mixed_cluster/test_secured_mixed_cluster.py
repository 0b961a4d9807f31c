"""Apache Kafka's nodes and ours with SASL_SSL on all listeners, and ACLs: each forwards to the controller of the other
kind, which decides by the client's principal.

Needs a Java (JAVA_HOME, or on the PATH) and the jars of Apache Kafka: MOLDAU_KAFKA_LIBS names their directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from moldau.errors import ERROR_CODES
from moldau.wire.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
)
from moldau.wire.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterQuotaEntity,
    AlterQuotaEntry,
    AlterQuotaOperation,
)
from moldau.wire.protocol.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from moldau.wire.protocol.messages.partitions import CreatePartitionsRequest, CreatePartitionsTopic
from moldau.wire.protocol.messages.scram import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from moldau.wire.protocol.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from moldau.wire.protocol.sasl_tokens import salted_password
from tests.support.apache_kafka import CLIENT_S, NEEDS_APACHE_KAFKA
from tests.support.cluster_of_three import (
    SEPARATE_ROLES,
    TOPIC,
    check_that_each_may_die,
    cluster_of_three,
)
from tests.support.secured_mixed_cluster import (
    BROKERS,
    PASSWORDS,
    SCRAM,
    Asking,
    client,
    code_of,
    commands,
    create_alice,
    settings,
)

pytestmark = [*NEEDS_APACHE_KAFKA, pytest.mark.timeout(600)]

TOPIC_DENIED, CLUSTER_DENIED = ERROR_CODES["TOPIC_AUTHORIZATION_FAILED"], ERROR_CODES["CLUSTER_AUTHORIZATION_FAILED"]
OF_TOPIC, OF_GROUP, OF_CLUSTER = 2, 3, 4
ANY, ALL, READ, WRITE, CREATE, ALLOW = 1, 2, 3, 4, 5, 3
LITERAL, PREFIXED = 3, 4


def acl(kind: int, name: str, operation: int, pattern: int = LITERAL) -> AclCreation:
    return AclCreation(kind, name, pattern, "User:alice", "*", operation, ALLOW)


def create_topic(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest((CreatableTopic(name, 1, 2),), timeout_ms=10_000)


def refused(by: str) -> dict[str, tuple[Any, int]]:
    """The requests that alice may not do, each with its error code; `by`: keeps names apart."""
    salt = b"a salt of twenty byt"
    salted = salted_password(SCRAM, "x", salt, 4_096)
    segment = IncrementalAlterableConfig("segment.bytes", 0, "1048576")
    entry = AlterQuotaEntry((AlterQuotaEntity("user", "alice"),), (AlterQuotaOperation("producer_byte_rate", 1e9),))
    return {
        "create topic": (create_topic(f"other-{by}"), TOPIC_DENIED),
        "delete topic": (DeleteTopicsRequest((DeleteTopicState(TOPIC),), (TOPIC,), timeout_ms=10_000), TOPIC_DENIED),
        "add partitions": (CreatePartitionsRequest((CreatePartitionsTopic(TOPIC, 9, None),), 10_000), TOPIC_DENIED),
        "alter configs": (
            IncrementalAlterConfigsRequest((IncrementalAlterConfigsResource(OF_TOPIC, TOPIC, (segment,)),)),
            TOPIC_DENIED,
        ),
        "create acl": (CreateAclsRequest((acl(OF_CLUSTER, "kafka-cluster", ALL),)), CLUSTER_DENIED),
        "delete acl": (DeleteAclsRequest((DeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY),)), CLUSTER_DENIED),
        "alter quotas": (AlterClientQuotasRequest((entry,)), CLUSTER_DENIED),
        "alter users": (
            AlterUserScramCredentialsRequest(upsertions=(ScramCredentialUpsertion("mallory", 2, 4_096, salt, salted),)),
            CLUSTER_DENIED,
        ),
    }


def copied_by_a_group(clients: Mapping[str, str], topic: str, values: list[str]) -> None:
    """Produces all of them, and reads them as a member of a group that commits."""
    failed: list[object] = []
    producer = Producer({**clients, "enable.idempotence": True, "log_level": 0})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.extend([error] if error else []))
    assert producer.flush(CLIENT_S) == 0
    assert failed == []
    group = {"group.id": "kitchen", "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({**clients, **group})
    consumer.subscribe([topic])
    found: list[str] = []
    for _ in range(CLIENT_S):
        for message in consumer.consume(len(values), 1):
            assert message.error() is None, message.error()
            found.append(str(message.value(), "utf-8"))
        if len(found) >= len(values):
            break
    assert found == values
    consumer.commit(asynchronous=False)
    consumer.close()


@pytest.mark.parametrize("of_kafka", [(1, 2), (3,)], ids=["two of kafka", "two of moldau"])
def test_nodes_of_both_kinds_log_in_at_each_other_and_each_may_be_killed(
    tmp_path: Path, of_kafka: tuple[int, ...]
) -> None:
    admin = client(tmp_path, "admin")
    with cluster_of_three(
        tmp_path, commands(of_kafka), of_kafka, settings=settings(tmp_path), clients=admin
    ) as cluster:
        check_that_each_may_die(cluster)


@pytest.mark.parametrize("of_kafka", [(1, 2), (2,)], ids=["controller of kafka", "controller of moldau"])
def test_a_forwarded_request_is_decided_for_the_client_that_asked(tmp_path: Path, of_kafka: tuple[int, ...]) -> None:
    made = cluster_of_three(
        tmp_path,
        commands(of_kafka),
        of_kafka,
        SEPARATE_ROLES,
        settings=settings(tmp_path),
        clients=client(tmp_path, "admin"),
    )
    with made as cluster:
        cluster.create_topic()
        admin, alice = Asking(tmp_path, cluster, "admin"), Asking(tmp_path, cluster, "alice")
        create_alice(admin, BROKERS[0])
        for node_id in BROKERS:
            cluster.wait_until(lambda node_id=node_id: alice.may_log_in(node_id))
            for what, (request, code) in refused(f"by-{node_id}").items():
                assert code_of(alice.at(node_id, request)) == code, (node_id, what, cluster.told())
        for node_id in BROKERS:
            assert admin.topics(node_id) == {TOPIC: 3}
            assert admin.acls(node_id) == []
        for here, there in (BROKERS, BROKERS[::-1]):
            may = acl(OF_TOPIC, f"alice-{here}", CREATE), acl(OF_TOPIC, f"alice-{here}", WRITE)
            assert code_of(admin.at(here, CreateAclsRequest(may))) == 0
            cluster.wait_until(lambda there=there: len(admin.acls(there)) == 2)
            assert code_of(alice.at(there, create_topic(f"alice-{here}"))) == 0
            assert code_of(alice.at(there, create_topic(f"alice-{here}-not"))) == TOPIC_DENIED
            cluster.wait_until(lambda here=here: f"alice-{here}" in alice.topics(here))
            every = DeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY)
            assert code_of(admin.at(there, DeleteAclsRequest((every,)))) == 0
            cluster.wait_until(lambda here=here: admin.acls(here) == [])
            assert alice.topics(here) == {}
            assert code_of(alice.at(here, create_topic(f"alice-{here}-again"))) == TOPIC_DENIED
        may = (
            acl(OF_TOPIC, "alice-", READ, PREFIXED),
            acl(OF_TOPIC, "alice-", WRITE, PREFIXED),
            acl(OF_GROUP, "kitchen", READ),
        )
        assert code_of(admin.at(BROKERS[0], CreateAclsRequest(may))) == 0
        for node_id in BROKERS:
            cluster.wait_until(lambda node_id=node_id: len(admin.acls(node_id)) == 3)
        for node_id in BROKERS:
            clients = client(tmp_path, "alice") | {"bootstrap.servers": cluster.bootstrap_servers}
            copied_by_a_group(clients, f"alice-{node_id}", [f"{node_id}-{number}" for number in range(50)])
        gone = AlterUserScramCredentialsRequest(deletions=(ScramCredentialDeletion("alice", 2),))
        assert code_of(admin.at(BROKERS[0], gone)) == 0
        told = cluster.told()
    assert not any(password in told for password in PASSWORDS.values())
