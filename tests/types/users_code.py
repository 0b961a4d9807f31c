"""The package's types in users' code, for a type checker: mypy reads this file (`make lint`), nothing runs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, assert_type

from moldau.errors import ERROR_CLASSES, GroupIdNotFoundError, KafkaError, MoldauError, UnknownTopicOrPartitionError
from moldau.spark import register
from moldau.testing import Cluster, Fault, GroupView, Happened, NotReachedError, Record
from moldau.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_kit(cluster: Cluster, is_by_partition: bool) -> None:
    assert_type(cluster.lag("billing"), int)
    assert_type(cluster.lag("billing", by_partition=False), int)
    assert_type(cluster.lag("billing", by_partition=True), dict[tuple[str, int], int])
    assert_type(cluster.records("orders"), Iterator[Record])
    assert_type(cluster.produce("orders", "coffee"), list[Record])
    assert_type(cluster.produce("orders", b"tea")[0].headers, list[tuple[str, bytes | None]])
    assert_type(cluster.group("billing"), GroupView)
    assert_type(cluster.group("billing").assignments, dict[str, tuple[TopicPartition, ...]])
    assert_type(cluster.faults.drop("Produce"), Fault)
    assert_type(cluster.faults.log, tuple[Happened, ...])
    with Cluster(settings={"num.partitions": 3}) as own:
        assert_type(own, Cluster)


def errors(cluster: Cluster) -> int:
    try:
        return cluster.lag("billing")
    except GroupIdNotFoundError as error:
        assert_type(error.code, int)
        assert_type(error.is_retriable, bool)
        return error.code
    except (UnknownTopicOrPartitionError, NotReachedError) as error:
        assert_type(error, UnknownTopicOrPartitionError | NotReachedError)
        return 0
    except KafkaError as error:
        assert_type(ERROR_CLASSES[error.code], type[KafkaError])
        raise MoldauError(error.name) from error


def spark(session: SparkSession) -> None:
    register(session)
