"""Cases of the tools with `--bootstrap-controller`: `{b}` is the addresses of three controllers. See cases."""

from __future__ import annotations

from tests.conformance.kafka_tools.step import Step

_FEATURES = "kafka-features --bootstrap-controller {b}"
_QUORUM = "kafka-metadata-quorum --bootstrap-controller {b}"
_CLUSTER = "--bootstrap-controller {b}"
_ACLS = "kafka-acls --bootstrap-controller {b}"
_CONFIGS = "kafka-configs --bootstrap-controller {b}"
_NOBODY = "--controller-id 9 --controller-directory-id AQEBAQEBAQEBAQEBAQEBAQ"
_THIRD = "--controller-id 3 --controller-directory-id AwMDAwMDAwMDAwMDAwMDAw"

AT_CONTROLLERS: dict[str, tuple[Step, ...]] = {
    "features": (
        Step(f"{_FEATURES} describe"),
        Step(f"{_FEATURES} upgrade --feature transaction.version=9", says=True),
        Step(f"{_FEATURES} upgrade --feature nothing.version=1", says=True),
        Step(f"{_FEATURES} downgrade --feature transaction.version=1"),
        Step(f"{_FEATURES} describe"),
        Step(f"{_FEATURES} upgrade --feature transaction.version=2"),
        Step(f"{_FEATURES} upgrade --release-version 4.3 --dry-run", says=True),
    ),
    "cluster": (
        Step(f"kafka-cluster cluster-id {_CLUSTER}"),
        Step("kafka-cluster cluster-id -C {b}"),
        Step("kafka-cluster cluster-id --bootstrap-server x:1 -C {b}", is_quiet=True),
        Step(f"kafka-cluster list-endpoints {_CLUSTER}"),
        Step(f"kafka-cluster list-endpoints {_CLUSTER} --include-fenced-brokers", says=True),
        Step(f"kafka-cluster unregister {_CLUSTER} --id 99", says=True),
    ),
    "configs": (
        Step(f"{_CONFIGS} --alter --entity-type brokers --entity-name 1 --add-config log.cleaner.threads=2"),
        Step(f"{_CONFIGS} --alter --entity-type brokers --entity-name 2 --add-config log.cleaner.threads=2"),
        Step(f"{_CONFIGS} --alter --entity-type brokers --entity-default --add-config log.retention.ms=1000000"),
        Step(f"{_CONFIGS} --describe --entity-type brokers --entity-name 1"),
        Step(f"{_CONFIGS} --describe --entity-type brokers --entity-default"),
        Step(f"{_CONFIGS} --describe --entity-type topics --entity-name orders", says=True),
        Step(f"{_CONFIGS} --alter --entity-type topics --entity-name orders --add-config retention.ms=5000000"),
        Step(f"{_CONFIGS} --alter --entity-type topics --entity-name none --add-config retention.ms=5", says=True),
        Step(f"{_CONFIGS} --alter --entity-type topics --entity-name orders --add-config retention.ms=x", says=True),
        Step(f"{_CONFIGS} --alter --entity-type groups --entity-name g --add-config consumer.session.timeout.ms=50000"),
        Step(f"{_CONFIGS} --alter --entity-type client-metrics --entity-name m --add-config interval.ms=5000"),
        Step(f"{_CONFIGS} --alter --entity-type broker-loggers --entity-name 1 --add-config root=INFO", says=True),
    ),
    "reassign": (
        Step("kafka-reassign-partitions --bootstrap-controller {b} --list"),
        Step("kafka-reassign-partitions --bootstrap-server x:1 --bootstrap-controller {b} --list", says=True),
    ),
    "quorum": (
        Step(f"{_QUORUM} describe --status"),
        Step(f"{_QUORUM} describe --replication", is_masked=True, is_sorted=True),
        Step(f"{_QUORUM} remove-controller {_NOBODY}", says=True),
        Step(f"{_QUORUM} remove-controller {_NOBODY} --dry-run", says=True),
        # the last one: whether it leads, and another must be elected first, is chance
        Step(f"{_QUORUM} remove-controller {_THIRD}", says=True),
    ),
}

ONLY_KAFKAS_TOOLS: dict[str, tuple[Step, ...]] = {
    "acls": (
        Step(f"{_ACLS} --list", says=True),
        Step(f"{_ACLS} --add --allow-principal User:a --operation Read --topic t", says=True),
        Step(f"{_ACLS} --remove --allow-principal User:a --operation Read --topic t --force", says=True),
    ),
    "users": (
        Step(f"{_CONFIGS} --describe --entity-type users", says=True),
        Step(f"{_CONFIGS} --alter --entity-type users --entity-name u --add-config producer_byte_rate=1000", says=True),
    ),
}
"""Moldau has no `moldau kafka-acls`, and our kafka-configs alters user quotas where Kafka's cannot."""
