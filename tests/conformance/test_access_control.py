"""ACLs with confluent-kafka: written through any broker of three, and in force for an ordinary client."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from moldau.core.authorization.settings import STANDARD_AUTHORIZER
from moldau.testing import Cluster

pytestmark = pytest.mark.slow

CLIENT_S = 30
AUTHORIZER = {"authorizer.class.name": STANDARD_AUTHORIZER}
ALL_ACLS = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


def allowed(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    literal = ResourcePatternType.LITERAL
    return AclBinding(kind, name, literal, "User:ANONYMOUS", "*", operation, AclPermissionType.ALLOW)


def eventually(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + CLIENT_S
    while not condition():
        assert time.monotonic() < end_s


def test_an_acl_that_one_broker_takes_is_known_to_every_broker() -> None:
    with Cluster(brokers=3, settings={**AUTHORIZER, "super.users": "User:ANONYMOUS"}) as cluster:
        admins = [AdminClient({"bootstrap.servers": server}) for server in cluster.bootstrap_servers.split(",")]
        for place, admin in enumerate(admins):
            for future in admin.create_acls([allowed(ResourceType.TOPIC, f"t{place}", AclOperation.READ)]).values():
                future.result(CLIENT_S)
        for admin in admins:
            eventually(lambda admin=admin: len(admin.describe_acls(ALL_ACLS).result(CLIENT_S)) == 3)


def test_what_no_acl_allows_is_refused_to_a_producer(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path, settings={**AUTHORIZER, "super.users": "User:ANONYMOUS"}) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        for future in admin.create_topics([NewTopic("open", 1, 1), NewTopic("closed", 1, 1)]).values():
            future.result(CLIENT_S)
        for future in admin.create_acls([allowed(ResourceType.TOPIC, "open", AclOperation.WRITE)]).values():
            future.result(CLIENT_S)
    with Cluster(data_dir=tmp_path, settings=AUTHORIZER) as cluster:
        outcomes: dict[str, KafkaError | None] = {}
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
        for topic in ("open", "closed"):
            producer.produce(topic, b"x", on_delivery=lambda error, message: outcomes.update({message.topic(): error}))
        assert producer.flush(CLIENT_S) == 0
        assert outcomes["open"] is None
        assert outcomes["closed"] is not None
        assert outcomes["closed"].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        assert list(admin.list_topics(timeout=CLIENT_S).topics) == ["open"]
        (future,) = admin.create_acls([allowed(ResourceType.TOPIC, "closed", AclOperation.WRITE)]).values()
        with pytest.raises(KafkaException, match="Cluster authorization failed"):
            future.result(CLIENT_S)
