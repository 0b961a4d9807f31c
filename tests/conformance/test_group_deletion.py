"""Common clients delete groups and committed offsets."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonTopicPartition
from kafka.admin import KafkaAdminClient

NewTopic = Callable[..., str]
NewName = Callable[[str], str]


def commit(bootstrap_servers: str, group: str, topic: str) -> None:
    """As a member that reads `topic`, which then leaves."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(30)
    assert message is not None
    assert not message.error(), message.error()
    consumer.commit(message, asynchronous=False)
    consumer.close()


@pytest.fixture
def read_topic(bootstrap_servers: str, new_topic: NewTopic) -> str:
    topic = new_topic()
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(topic, b"x")
    assert producer.flush(30) == 0
    return topic


def committed(bootstrap_servers: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group})
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    consumer.close()
    return found.offset


def test_confluent_deletes_a_group(bootstrap_servers: str, read_topic: str, new_name: NewName) -> None:
    group = new_name("group")
    commit(bootstrap_servers, group, read_topic)
    assert committed(bootstrap_servers, group, read_topic) == 1
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.delete_consumer_groups([group])[group].result(timeout=30)
    assert committed(bootstrap_servers, group, read_topic) == -1001
    listed = admin.list_consumer_groups().result(timeout=30).valid
    assert group not in [found.group_id for found in listed]
    with pytest.raises(KafkaException, match="not exist"):
        admin.delete_consumer_groups([group])[group].result(timeout=30)


def test_confluent_does_not_delete_a_group_that_lives(
    bootstrap_servers: str, read_topic: str, new_name: NewName
) -> None:
    group = new_name("group")
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([read_topic])
    assert consumer.poll(30) is not None
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    with pytest.raises(KafkaException, match="not empty"):
        admin.delete_consumer_groups([group])[group].result(timeout=30)
    consumer.close()
    admin.delete_consumer_groups([group])[group].result(timeout=30)


def test_kafka_python_deletes_a_group_and_positions(bootstrap_servers: str, read_topic: str, new_name: NewName) -> None:
    group = new_name("group")
    commit(bootstrap_servers, group, read_topic)
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    partition = PythonTopicPartition(read_topic, 0)
    admin.delete_group_offsets(group, [partition])
    assert committed(bootstrap_servers, group, read_topic) == -1001
    admin.delete_groups([group])
    other = AdminClient({"bootstrap.servers": bootstrap_servers})
    listed = other.list_consumer_groups().result(timeout=30).valid
    assert group not in [found.group_id for found in listed]
    admin.close()


def test_a_group_is_read_from_the_start_after_its_deletion(
    bootstrap_servers: str, read_topic: str, new_name: NewName
) -> None:
    group = new_name("group")
    commit(bootstrap_servers, group, read_topic)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.delete_consumer_groups([group])[group].result(timeout=30)
    reader = KafkaConsumer(
        read_topic, bootstrap_servers=bootstrap_servers, group_id=group, auto_offset_reset="earliest",
        consumer_timeout_ms=30_000,
    )  # fmt: skip
    assert next(reader).offset == 0
    reader.close()


def test_positions_altered_by_an_administrator(bootstrap_servers: str, read_topic: str, new_name: NewName) -> None:
    group = new_name("group")
    commit(bootstrap_servers, group, read_topic)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(read_topic, 0, 0)])
    admin.alter_consumer_group_offsets([wanted])[group].result(timeout=30)
    assert committed(bootstrap_servers, group, read_topic) == 0
