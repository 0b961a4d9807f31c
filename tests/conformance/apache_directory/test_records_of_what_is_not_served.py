"""Apache Kafka's records of features that Moldau does not serve yet are kept, logged at the start, and intact for
Kafka.

Selected by the marker, as test_open_with_apache_kafka: `pytest -m java tests/conformance/apache_directory`.
"""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    Producer,
    TopicPartition,
)
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
    UserScramCredentialUpsertion,
)

from moldau.testing import Cluster
from tests.support.apache_kafka import (
    CLIENT_S,
    NEEDS_APACHE_KAFKA,
    apache_kafka,
    commit,
    committed,
    create_topics,
    dump,
    run_java,
)

pytestmark = NEEDS_APACHE_KAFKA

SECURED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
FREQUENT = {"metadata.log.max.record.bytes.between.snapshots": "500"}
NEW_GROUP = "of-kip-848"
ROWS = 3
ANY_ACL = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


def acl(name: str, operation: AclOperation) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, name, ResourcePatternType.LITERAL, "User:ann", "*", operation, AclPermissionType.DENY
    )


ACLS = [acl("orders", AclOperation.READ), acl("orders", AclOperation.WRITE), acl("small", AclOperation.DELETE)]


def write_security(servers: str) -> None:
    """Three ACLs that stay and one that is deleted; the credentials of a user."""
    admin = AdminClient({"bootstrap.servers": servers})
    gone = acl("gone", AclOperation.READ)
    for future in admin.create_acls([*ACLS, gone]).values():
        future.result(CLIENT_S)
    only_gone = AclBindingFilter(
        ResourceType.TOPIC,
        "gone",
        ResourcePatternType.LITERAL,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    for future in admin.delete_acls([only_gone]).values():
        assert future.result(CLIENT_S) == [gone]
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion("ann", credential, b"secret", b"salt")
    for future in admin.alter_user_scram_credentials([change]).values():
        future.result(CLIENT_S)


def security(servers: str) -> tuple[list[AclBinding], dict[str, list[tuple[ScramMechanism, int]]]]:
    admin = AdminClient({"bootstrap.servers": servers})
    acls = admin.describe_acls(ANY_ACL).result(CLIENT_S)
    users = admin.describe_user_scram_credentials().result(CLIENT_S)
    return sorted(acls, key=str), {
        name: [(info.mechanism, info.iterations) for info in user.scram_credential_infos]
        for name, user in users.items()
    }


def write_transactions(servers: str) -> Producer:
    """One committed and one aborted transaction in `paid`; the open one of `open` is returned with its producer."""
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics([NewTopic("paid", 1, 1), NewTopic("open", 1, 1)]).values():
        future.result(CLIENT_S)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "payments"})
    producer.init_transactions(CLIENT_S)
    for tag in ("committed", "aborted"):
        producer.begin_transaction()
        for row in range(ROWS):
            producer.produce("paid", value=f"{tag}-{row}".encode())
        producer.flush(CLIENT_S)
        if tag == "committed":
            producer.commit_transaction(CLIENT_S)
        else:
            producer.abort_transaction(CLIENT_S)
    unfinished = Producer({"bootstrap.servers": servers, "transactional.id": "unfinished", "log_level": 0})
    unfinished.init_transactions(CLIENT_S)
    unfinished.begin_transaction()
    unfinished.produce("open", value=b"undecided")
    unfinished.flush(CLIENT_S)
    return unfinished


def read(servers: str, topic: str, isolation: str) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    values: list[bytes] = []
    while True:
        message = consumer.poll(CLIENT_S)
        assert message is not None
        if message.error() is not None:
            assert message.error().code() == -191, message.error()
            break
        values.append(message.value())
    consumer.close()
    return values


def use_new_group(servers: str) -> None:
    """A consumer of the new protocol reads `paid` and commits after the committed rows."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": NEW_GROUP,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["paid"])
    message = consumer.poll(CLIENT_S)
    assert message is not None
    assert message.error() is None
    consumer.commit(offsets=[TopicPartition("paid", 0, ROWS)], asynchronous=False)
    consumer.close()


def new_group_offset(servers: str) -> int:
    admin = AdminClient({"bootstrap.servers": servers})
    request = ConsumerGroupTopicPartitions(NEW_GROUP, [TopicPartition("paid", 0)])
    [future] = admin.list_consumer_group_offsets([request]).values()
    [place] = future.result(CLIENT_S).topic_partitions
    offset: int = place.offset
    return offset


def transactions(servers: str) -> dict[str, str]:
    """Transactional id to state, by Kafka's own tool."""
    printed = run_java("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", servers, "list")
    rows = [line.split() for line in printed.splitlines()[1:]]
    return {row[0]: row[3] for row in rows if row}


def groups(servers: str) -> dict[str, str]:
    """Group id to type, by Kafka's own tool."""
    printed = run_java("org.apache.kafka.tools.GroupsCommand", "--bootstrap-server", servers, "--list")
    rows = [line.split() for line in printed.splitlines()[1:]]
    return {row[0]: row[1] for row in rows if row}


def check_topics(servers: str) -> None:
    rows = [f"committed-{row}".encode() for row in range(ROWS)]
    assert read(servers, "paid", "read_committed") == rows
    assert read(servers, "paid", "read_uncommitted") == rows + [f"aborted-{row}".encode() for row in range(ROWS)]
    assert read(servers, "open", "read_committed") == []
    assert committed(servers) == [4] * 3
    assert new_group_offset(servers) == ROWS


def check_kafka(servers: str) -> None:
    check_topics(servers)
    assert security(servers) == (sorted(ACLS, key=str), {"ann": [(ScramMechanism.SCRAM_SHA_512, 4096)]})
    states = transactions(servers)
    assert states == {"payments": "CompleteAbort", "unfinished": "Ongoing"}
    assert groups(servers)[NEW_GROUP] == "Consumer"


def test_what_we_do_not_serve_is_told_kept_and_found_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = tmp_path / "data"
    with apache_kafka(tmp_path / "kafka", data, SECURED) as servers:
        create_topics(servers)
        commit(servers)
        write_security(servers)
        unfinished = write_transactions(servers)
        use_new_group(servers)
        check_kafka(servers)
    snapshots = set(data.glob("__cluster_metadata-0/*.checkpoint"))

    caplog.set_level(logging.INFO, "moldau.network")
    with Cluster(data_dir=data, settings=FREQUENT) as cluster:
        check_topics(cluster.bootstrap_servers)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        for number in range(5):
            admin.create_topics([NewTopic(f"more-{number}", 1, 1)])[f"more-{number}"].result(CLIENT_S)
        cluster.wait_for(lambda: "consumer group" in caplog.text)
        cluster.wait_for(lambda: bool(set(data.glob("__cluster_metadata-0/*.checkpoint")) - snapshots))
    told = [record.getMessage() for record in caplog.records if record.getMessage().startswith("kept, not served")]
    assert [line.split(";")[0].split(":")[1].strip() for line in told] == [
        "1 SCRAM credential in the metadata log",
        "1 consumer group",
    ]
    assert "3 ACLs in the metadata log without effect: authorizer.class.name is not set" in caplog.text
    assert "a transaction is open in 1 partition, first in open-0 at offset 0" in caplog.text
    newest = max(data.glob("__cluster_metadata-0/*.checkpoint"))
    printed = dump(newest, decoder="--cluster-metadata-decoder")
    assert printed.count('"type":"ACCESS_CONTROL_ENTRY_RECORD"') == 3
    assert printed.count('"type":"USER_SCRAM_CREDENTIAL_RECORD"') == 1
    assert '"type":"REMOVE_ACCESS_CONTROL_ENTRY_RECORD"' not in printed

    with apache_kafka(tmp_path / "kafka", data, SECURED) as servers:
        check_kafka(servers)
    del unfinished
