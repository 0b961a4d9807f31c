"""ACLs, SCRAM users and quotas of Moldau are in force under Apache Kafka on the same directory, and back again.

Needs a Java (JAVA_HOME, or on the PATH) and the jars of Apache Kafka: MOLDAU_KAFKA_LIBS names their directory.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer, ThrottleEvent
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from moldau.wire.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterQuotaEntity,
    AlterQuotaEntry,
    AlterQuotaOperation,
    DescribeClientQuotasRequest,
)
from tests.support.apache_kafka import CLIENT_S, NEEDS_APACHE_KAFKA
from tests.support.brokers_with_logins import SETTINGS, Served, Serving, apache_with_logins, moldau_with_logins
from tests.support.wire import RawConnection

pytestmark = [*NEEDS_APACHE_KAFKA, pytest.mark.timeout(600)]

MECHANISMS = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
PASSWORD = "of-ann"
moldau, apache = moldau_with_logins(SETTINGS, PASSWORD), apache_with_logins(SETTINGS)
SLOW, FAST = 2_000.0, 1e9
"""Bytes per second."""
EVERY_ACL = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


def acl(name: str, operation: AclOperation, kind: AclPermissionType, host: str = "*") -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, ResourcePatternType.LITERAL, "User:ann", host, operation, kind)


OPEN = acl("orders", AclOperation.WRITE, AclPermissionType.ALLOW)
ELSEWHERE = acl("orders", AclOperation.WRITE, AclPermissionType.DENY, "10.9.8.7")
CLOSED = acl("payroll", AclOperation.WRITE, AclPermissionType.DENY)
PREFIX = AclBinding(
    ResourceType.TOPIC,
    "test-",
    ResourcePatternType.PREFIXED,
    "User:ann",
    "*",
    AclOperation.WRITE,
    AclPermissionType.ALLOW,
)


def write_first(served: Served) -> None:
    admin = AdminClient({"bootstrap.servers": served.servers})
    for created in admin.create_topics([NewTopic(name, 1, 1) for name in ("orders", "payroll", "test-1")]).values():
        created.result(CLIENT_S)
    changes = [
        UserScramCredentialUpsertion("ann", ScramCredentialInfo(mechanism, 4_096), PASSWORD.encode())
        for mechanism in MECHANISMS.values()
    ]
    for change in changes:  # one user at a time
        for altered in admin.alter_user_scram_credentials([change]).values():
            altered.result(CLIENT_S)
    for bound in admin.create_acls([OPEN, ELSEWHERE, CLOSED]).values():
        bound.result(CLIENT_S)
    set_quota(served, SLOW)


def write_second(served: Served) -> None:
    """The other broker writes: it deletes a credential and an ACL, adds another ACL, and changes the quota."""
    admin = AdminClient({"bootstrap.servers": served.servers})
    for altered in admin.alter_user_scram_credentials(
        [UserScramCredentialDeletion("ann", ScramMechanism.SCRAM_SHA_256)]
    ).values():
        altered.result(CLIENT_S)
    only = AclBindingFilter(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.LITERAL,
        None,
        "*",
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    for deleted in admin.delete_acls([only]).values():
        assert deleted.result(CLIENT_S) == [OPEN]
    for bound in admin.create_acls([PREFIX]).values():
        bound.result(CLIENT_S)
    set_quota(served, FAST)


def set_quota(served: Served, rate: float) -> None:
    entry = AlterQuotaEntry((AlterQuotaEntity("user", "ann"),), (AlterQuotaOperation("producer_byte_rate", rate),))
    with RawConnection(served.servers) as connection:
        [answer] = connection.ask(AlterClientQuotasRequest((entry,)), 1).entries
        assert answer.error_code == 0, answer.error_message


def written(served: Served) -> tuple[list[str], list[str], list[tuple[object, object]]]:
    """The described ACLs, users and quotas."""
    admin = AdminClient({"bootstrap.servers": served.servers})
    acls = sorted(map(str, admin.describe_acls(EVERY_ACL).result(CLIENT_S)))
    users = admin.describe_user_scram_credentials().result(CLIENT_S)
    told = [
        f"{name} {info.mechanism} {info.iterations}" for name in users for info in users[name].scram_credential_infos
    ]
    with RawConnection(served.servers) as connection:
        entries = connection.ask(DescribeClientQuotasRequest(), 1).entries or ()
    return acls, sorted(told), [(entry.entity, entry.values) for entry in entries]


class Outcome(NamedTuple):
    """The result of a record of ann's: its error, 0 for none, and the throttle time in ms."""

    error: int
    throttled_ms: int


def produced(served: Served, topic: str, mechanism: str, password: str = PASSWORD) -> Outcome:
    errors: list[int] = []
    throttled: list[int] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        errors.append(0 if error is None else error.code())

    def throttle(event: ThrottleEvent) -> None:
        throttled.append(int(1_000 * event.throttle_time))

    producer = Producer(
        {
            "bootstrap.servers": served.login,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": "ann",
            "sasl.password": password,
            "throttle_cb": throttle,
            "log_level": 0,
        }
    )
    producer.produce(topic, bytes(30_000), on_delivery=delivered)
    assert producer.flush(CLIENT_S) == 0
    [error] = errors
    return Outcome(error, max(throttled, default=0))


def is_let_in(served: Served, mechanism: str, password: str = PASSWORD) -> bool:
    errors: list[KafkaError] = []
    admin = AdminClient(
        {
            "bootstrap.servers": served.login,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": "ann",
            "sasl.password": password,
            "error_cb": errors.append,
            "log_level": 0,
        }
    )
    for _ in range(CLIENT_S):
        try:
            admin.list_topics(timeout=1)
        except KafkaException:
            admin.poll(0)
            if any(error.code() == KafkaError._AUTHENTICATION for error in errors):
                return False
        else:
            return True
    pytest.fail(f"neither let in nor refused: {errors}")


def check_first(served: Served) -> None:
    """Checks both mechanisms, ACLs that allow and deny, and the quota."""
    for mechanism in MECHANISMS:
        assert produced(served, "payroll", mechanism).error == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert not is_let_in(served, mechanism, "wrong")
    assert produced(served, "test-1", "SCRAM-SHA-512").error == KafkaError.TOPIC_AUTHORIZATION_FAILED
    error, throttled_ms = produced(served, "orders", "SCRAM-SHA-256")
    assert error == 0
    assert throttled_ms > 0


def check_second(served: Served) -> None:
    assert not is_let_in(served, "SCRAM-SHA-256")
    assert produced(served, "orders", "SCRAM-SHA-512").error == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert produced(served, "test-1", "SCRAM-SHA-512") == (0, 0)


@pytest.mark.parametrize(("first", "second"), [(moldau, apache), (apache, moldau)], ids=["moldau first", "kafka first"])
def test_users_acls_and_quotas_are_in_force_under_both(tmp_path: Path, first: Serving, second: Serving) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with first(tmp_path / "one", data) as served:
        write_first(served)
        check_first(served)
        before = written(served)
    with second(tmp_path / "two", data) as served:
        assert written(served) == before
        check_first(served)
        write_second(served)
        check_second(served)
        before = written(served)
    with first(tmp_path / "three", data) as served:
        assert written(served) == before
        check_second(served)
