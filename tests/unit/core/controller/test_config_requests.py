"""Alterations of settings: records in the metadata log, and Kafka's responses (asked of 4.3.1)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.controller.config_alterations import alter_configs, incremental_alter_configs
from moldau.core.controller.configs import min_insync_replicas_of_leader, view_in_force
from moldau.core.metadata.batches import MAX_BATCH_RECORDS
from moldau.core.metadata.features import METADATA_VERSION_4_3
from moldau.core.metadata.fold import MetadataFold
from moldau.core.metadata.image import ConfigResource, MetadataImage
from moldau.types import Uuid, whole
from moldau.wire.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from moldau.wire.protocol.messages.metadata_records import (
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)

STATIC = parse_broker_settings({})
TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3

Change = tuple[int, str, str | None]


class Cluster:
    """A metadata log with one topic "t"; decisions are applied."""

    def __init__(self, *, has_elr: bool = True) -> None:
        self.fold = MetadataFold("cluster")
        self.fold.apply(TopicRecord("t", Uuid(b"t" * 16)))
        if has_elr:
            self.fold.apply(FeatureLevelRecord("eligible.leader.replicas.version", 1))
            self.fold.apply(ConfigRecord(BROKER, "", "min.insync.replicas", "1"))

    def settings(self, kind: int, name: str) -> dict[str, str]:
        return self.fold.image.configs.get(ConfigResource(kind, name), {})

    def change(self, kind: int, name: str, *changes: Change, validate_only: bool = False) -> tuple[int, str | None]:
        configs = tuple(IncrementalAlterableConfig(key, operation, value) for operation, key, value in changes)
        request = IncrementalAlterConfigsRequest((IncrementalAlterConfigsResource(kind, name, configs),), validate_only)
        records, answer = whole(incremental_alter_configs(self.fold.image, STATIC, request))
        for record in records:
            self.fold.apply(record)
        (response,) = answer.responses
        assert (response.resource_type, response.resource_name) == (kind, name)
        return response.error_code, response.error_message

    def replace(self, kind: int, name: str, **configs: str | None) -> tuple[int, str | None]:
        entries = tuple(AlterableConfig(key.replace("_", "."), value) for key, value in configs.items())
        records, answer = whole(
            alter_configs(self.fold.image, STATIC, AlterConfigsRequest((AlterConfigsResource(kind, name, entries),)))
        )
        for record in records:
            self.fold.apply(record)
        return answer.responses[0].error_code, answer.responses[0].error_message


def test_set_delete_append_subtract() -> None:
    cluster = Cluster()
    assert cluster.change(TOPIC, "t", (SET, "retention.ms", "5"), (SET, "segment.ms", "7")) == (0, None)
    assert cluster.settings(TOPIC, "t") == {"retention.ms": "5", "segment.ms": "7"}
    assert cluster.change(TOPIC, "t", (DELETE, "segment.ms", None), (DELETE, "nope", None)) == (0, None)
    assert cluster.settings(TOPIC, "t") == {"retention.ms": "5"}
    replicas = "leader.replication.throttled.replicas"
    assert cluster.change(TOPIC, "t", (APPEND, replicas, "0:1,1:1")) == (0, None)
    assert cluster.change(TOPIC, "t", (APPEND, replicas, "1:1,2:1")) == (0, None)
    assert cluster.settings(TOPIC, "t")[replicas] == "0:1,1:1,2:1"
    assert cluster.change(TOPIC, "t", (SUBTRACT, replicas, "1:1,9:9")) == (0, None)
    assert cluster.settings(TOPIC, "t")[replicas] == "0:1,2:1"


def test_a_list_that_appends_make_too_long_for_a_record_is_refused() -> None:
    cluster = Cluster()
    replicas = "follower.replication.throttled.replicas"
    half = ",".join(f"{number}:1" for number in range(2_600))
    other = ",".join(f"{number}:2" for number in range(2_600))
    assert cluster.change(TOPIC, "t", (APPEND, replicas, half)) == (0, None)
    code, message = cluster.change(TOPIC, "t", (APPEND, replicas, other))
    assert (code, message) == (40, f"The list {replicas} would be over 32767 bytes.")
    assert cluster.settings(TOPIC, "t")[replicas] == half


def test_an_append_begins_from_the_default() -> None:
    cluster = Cluster()
    assert cluster.change(TOPIC, "t", (APPEND, "cleanup.policy", "delete")) == (0, None)
    assert cluster.settings(TOPIC, "t") == {"cleanup.policy": "delete"}


def test_only_what_changes_is_written() -> None:
    cluster = Cluster()
    cluster.change(TOPIC, "t", (SET, "retention.ms", "5"), (SET, "segment.ms", "7"))
    entries = (AlterableConfig("segment.ms", "7"), AlterableConfig("flush.ms", "9"))
    records, _ = whole(
        alter_configs(cluster.fold.image, STATIC, AlterConfigsRequest((AlterConfigsResource(TOPIC, "t", entries),)))
    )
    assert records == [ConfigRecord(TOPIC, "t", "retention.ms", None), ConfigRecord(TOPIC, "t", "flush.ms", "9")]


@pytest.mark.parametrize(
    ("kind", "name", "change", "code", "message"),
    [
        (TOPIC, "t", (SET, "nope", "1"), 40, "Unknown topic config name: nope"),
        (TOPIC, "t", (SET, "retention.ms", None), 42, "Null value not supported for : retention.ms"),
        (TOPIC, "t", (4, "retention.ms", "5"), 42, "Unknown config operation 4 for retention.ms"),
        (
            TOPIC,
            "t",
            (APPEND, "retention.ms", "5"),
            40,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (TOPIC, "t", (SUBTRACT, "nope", "5"), 40, "Can't SUBTRACT to key nope because its type is not LIST."),
        (TOPIC, "u", (SET, "retention.ms", "5"), 3, "The topic 'u' does not exist."),
        (
            TOPIC,
            "u",
            (SET, "retention.ms", "x"),
            40,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (TOPIC, "", (SET, "retention.ms", "5"), 42, "Default topic resources are not allowed."),
        (TOPIC, "..", (SET, "retention.ms", "5"), 17, "Topic name is invalid: '..' is not allowed"),
        (GROUP, "", (SET, "consumer.session.timeout.ms", "5"), 42, "Default group resources are not allowed."),
        (16, "", (SET, "interval.ms", "100"), 42, "Subscription name can't be empty"),
        (8, "1", (SET, "root", "INFO"), 42, "Unknown resource type 8"),
        (99, "1", (SET, "root", "INFO"), 42, "Unknown resource type 99"),
        (BROKER, "2", (SET, "num.io.threads", "9"), 42, "Unexpected broker id, expected 1, but received 2"),
        (BROKER, "x", (SET, "num.io.threads", "9"), 42, "Node id must be an integer, but it is: x"),
        (
            BROKER,
            "",
            (APPEND, "num.io.threads", "1"),
            40,
            "Config value append is not allowed for config key: num.io.threads",
        ),
        (
            BROKER,
            "1",
            (SET, "min.insync.replicas", "1"),
            40,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        ),
        (
            BROKER,
            "1",
            (DELETE, "min.insync.replicas", None),
            40,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        ),
        (
            BROKER,
            "",
            (DELETE, "min.insync.replicas", None),
            40,
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        ),
    ],
)
def test_a_refusal(kind: int, name: str, change: Change, code: int, message: str) -> None:
    cluster = Cluster()
    before = {resource: dict(values) for resource, values in cluster.fold.image.configs.items()}
    assert cluster.change(kind, name, change) == (code, message)
    assert cluster.fold.image.configs == before


def test_without_elr_the_minimum_is_a_setting_like_others() -> None:
    cluster = Cluster(has_elr=False)
    assert cluster.change(BROKER, "1", (SET, "min.insync.replicas", "2")) == (0, None)
    assert cluster.change(BROKER, "", (SET, "min.insync.replicas", "2")) == (0, None)
    assert cluster.replace(BROKER, "") == (0, None)


def test_with_elr_replacing_everything_keeps_the_minimum() -> None:
    cluster = Cluster()
    message = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
    assert cluster.replace(BROKER, "", num_io_threads="9") == (40, message)
    assert cluster.replace(BROKER, "", num_io_threads="9", min_insync_replicas="2") == (0, None)
    assert cluster.settings(BROKER, "") == {"num.io.threads": "9", "min.insync.replicas": "2"}


class ClusterWithEligible(Cluster):
    """One partition each of "t" and "u", with an eligible replica and a formerly eligible one."""

    def __init__(self, *, has_elr: bool = True) -> None:
        super().__init__(has_elr=has_elr)
        self.fold.apply(TopicRecord("u", Uuid(b"u" * 16)))
        for letter in (b"t", b"u"):
            self.fold.apply(
                PartitionRecord(
                    partition_id=0,
                    topic_id=Uuid(letter * 16),
                    replicas=(1, 2, 3),
                    isr=(1,),
                    leader=1,
                    eligible_leader_replicas=(2,),
                    last_known_elr=(3,),
                )
            )

    def eligible(self) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
        partitions = {name: topic.partitions[0] for name, topic in self.fold.image.topics_by_name.items()}
        return {name: (one.eligible_leader_replicas, one.last_known_elr) for name, one in partitions.items()}


KEPT, CLEARED = ((2,), (3,)), ((), ())


@pytest.mark.parametrize(
    ("kind", "name", "key", "eligible"),
    [
        (TOPIC, "t", "min.insync.replicas", {"t": CLEARED, "u": KEPT}),
        (BROKER, "", "min.insync.replicas", {"t": CLEARED, "u": CLEARED}),
        (TOPIC, "t", "max.message.bytes", {"t": KEPT, "u": KEPT}),
    ],
)
def test_another_minimum_makes_nobody_eligible(
    kind: int, name: str, key: str, eligible: dict[str, tuple[tuple[int, ...], tuple[int, ...]]]
) -> None:
    cluster = ClusterWithEligible()
    assert cluster.change(kind, name, (SET, key, "2"), validate_only=True) == (0, None)
    assert cluster.eligible() == {"t": KEPT, "u": KEPT}
    assert cluster.change(kind, name, (SET, key, "2")) == (0, None)
    assert cluster.eligible() == eligible


def test_a_removed_minimum_makes_no_replica_eligible_and_an_equal_one_does_nothing() -> None:
    cluster = ClusterWithEligible()
    cluster.fold.apply(ConfigRecord(TOPIC, "t", "min.insync.replicas", "2"))
    assert cluster.change(TOPIC, "t", (SET, "min.insync.replicas", "2")) == (0, None)
    assert cluster.eligible() == {"t": KEPT, "u": KEPT}
    assert cluster.replace(TOPIC, "t", max_message_bytes="9") == (0, None)
    assert cluster.eligible() == {"t": CLEARED, "u": KEPT}


def test_without_elr_nothing_is_written_of_eligible_replicas() -> None:
    cluster = Cluster(has_elr=False)
    config = IncrementalAlterableConfig("min.insync.replicas", SET, "2")
    request = IncrementalAlterConfigsRequest((IncrementalAlterConfigsResource(TOPIC, "t", (config,)),))
    records, _ = whole(incremental_alter_configs(cluster.fold.image, STATIC, request))
    assert ClearElrRecord("t") not in records
    assert records == [ConfigRecord(TOPIC, "t", "min.insync.replicas", "2")]


def test_the_same_key_or_resource_twice() -> None:
    cluster = Cluster()
    twice = ((SET, "retention.ms", "5"), (SET, "retention.ms", "6"))
    assert cluster.change(TOPIC, "t", *twice) == (42, "Error due to duplicate config keys")
    resource = IncrementalAlterConfigsResource(TOPIC, "t", (IncrementalAlterableConfig("retention.ms", SET, "5"),))
    records, answer = whole(
        incremental_alter_configs(cluster.fold.image, STATIC, IncrementalAlterConfigsRequest((resource, resource)))
    )
    assert records == []
    message = "Each resource must appear at most once."
    assert [(item.error_code, item.error_message) for item in answer.responses] == [(42, message)] * 2


def test_validate_only_writes_nothing() -> None:
    cluster = Cluster()
    assert cluster.change(TOPIC, "t", (SET, "retention.ms", "5"), validate_only=True) == (0, None)
    assert cluster.settings(TOPIC, "t") == {}


def test_a_change_is_judged_with_what_was_set_before() -> None:
    """The lag bounds contradict each other only together."""
    cluster = Cluster()
    cluster.fold.apply(ConfigRecord(TOPIC, "t", "min.compaction.lag.ms", "100"))
    code, message = cluster.change(TOPIC, "t", (SET, "max.compaction.lag.ms", "10"))
    assert (code, message) == (
        40,
        "conflict topic config setting min.compaction.lag.ms (100) > max.compaction.lag.ms (10)",
    )


def test_a_message_about_a_long_name_fits_its_field() -> None:
    code, message = Cluster().change(TOPIC, "t", (SET, "n" * 32_767, "1"))
    assert code == 40
    assert len((message or "").encode()) < 32_767


def test_more_records_than_one_batch_holds() -> None:
    configs = tuple(IncrementalAlterableConfig(f"unknown.{n}", SET, "1") for n in range(MAX_BATCH_RECORDS + 1))
    request = IncrementalAlterConfigsRequest((IncrementalAlterConfigsResource(BROKER, "", configs),))
    records, answer = whole(incremental_alter_configs(Cluster().fold.image, STATIC, request))
    assert (len(records), answer.responses[0].error_code) == (0, 44)


NAMES = st.sampled_from(["retention.ms", "segment.ms", "cleanup.policy", "nope"])
CHANGES = st.lists(
    st.tuples(st.integers(-1, 4), NAMES, st.none() | st.sampled_from(["5", "delete", "x", ""])), max_size=3
)


@given(st.lists(CHANGES, max_size=6))
def test_a_refused_alteration_writes_nothing_and_a_taken_one_all(requests: list[list[Change]]) -> None:
    """Compared with a plain dictionary: after each response 0 the settings are the changed ones, else the earlier
    ones."""
    cluster, model = Cluster(), dict[str, str]()
    for changes in requests:
        code, _ = cluster.change(TOPIC, "t", *changes)
        if code == 0:
            for operation, name, value in changes:
                if operation == DELETE:
                    model.pop(name, None)
                elif operation == SET:
                    model[name] = value or ""
                else:
                    model["cleanup.policy"] = cluster.settings(TOPIC, "t")["cleanup.policy"]
        assert cluster.settings(TOPIC, "t") == model


class WatchedImage(MetadataImage):
    """Counts the reads of the settings for all brokers."""

    looked = 0

    def cluster_defaults(self) -> Mapping[str, str]:
        self.looked += 1
        return super().cluster_defaults()


def test_the_view_in_force_is_worked_out_once_for_a_request() -> None:
    """It takes longer than checking a resource with it, and a request may name thousands."""
    image = WatchedImage("cluster")
    image.apply_delta(Cluster().fold.image.as_delta())
    change = (IncrementalAlterableConfig("retention.ms", SET, "5"),)
    resources = tuple(
        IncrementalAlterConfigsResource(TOPIC, name, change) for name in ("t", *(f"absent{n}" for n in range(20)))
    )
    records, answer = whole(incremental_alter_configs(image, STATIC, IncrementalAlterConfigsRequest(resources, False)))
    assert records == [ConfigRecord(TOPIC, "t", "retention.ms", "5")]
    assert [response.error_code for response in answer.responses] == [0] + [3] * 20
    assert image.looked == 1


def test_directories_are_cordoned_only_where_the_controller_can_write_it_down() -> None:
    """KIP-1066: below metadata.version 4.3 the controller would still place new replicas there."""
    cluster = Cluster()
    cluster.fold.apply(FeatureLevelRecord("metadata.version", METADATA_VERSION_4_3 - 1))
    for change in ((SET, "cordoned.log.dirs", "*"), (DELETE, "cordoned.log.dirs", None)):
        code, message = cluster.change(BROKER, str(STATIC.node_id), change)
        assert (code, "metadata.version 4.3" in (message or "")) == (40, True)
    cluster.fold.apply(FeatureLevelRecord("metadata.version", METADATA_VERSION_4_3))
    assert cluster.change(BROKER, str(STATIC.node_id), (SET, "cordoned.log.dirs", "*")) == (0, None)


def test_a_broker_s_own_minimum_is_in_force_unless_elr_makes_it_one_for_all() -> None:
    cluster = Cluster(has_elr=False)
    node = str(STATIC.node_id)
    assert cluster.change(BROKER, "", (SET, "min.insync.replicas", "1")) == (0, None)
    assert cluster.change(BROKER, node, (SET, "min.insync.replicas", "2")) == (0, None)

    def minimum() -> int:
        image = cluster.fold.image
        return min_insync_replicas_of_leader(image, "t", view_in_force(image, STATIC)[0])

    assert minimum() == 2
    assert cluster.change(TOPIC, "t", (SET, "min.insync.replicas", "3")) == (0, None)
    assert minimum() == 3
    assert cluster.change(TOPIC, "t", (DELETE, "min.insync.replicas", None)) == (0, None)
    cluster.fold.apply(FeatureLevelRecord("eligible.leader.replicas.version", 1))
    assert minimum() == 1


def test_what_depends_on_the_file_of_another_broker_is_left_to_that_broker() -> None:
    """The deciding node has other directories and other numbers of threads."""
    cluster = Cluster()
    cluster.fold.apply(FeatureLevelRecord("metadata.version", METADATA_VERSION_4_3))
    cluster.fold.apply(RegisterBrokerRecord(broker_id=2, broker_epoch=1))
    for name, value in (("cordoned.log.dirs", "/only/there"), ("num.io.threads", "64"), ("listeners", "A://:1")):
        assert cluster.change(BROKER, "2", (SET, name, value)) == (0, None)
    for name, value in (
        ("num.io.threads", "x"),
        ("node.id", "3"),
        ("max.connections", "0"),
        ("max.connections.per.ip.overrides", "bogus"),
        ("log.retention.ms", "0"),
    ):
        assert cluster.change(BROKER, "2", (SET, name, value))[0] == 42
    assert cluster.change(BROKER, str(STATIC.node_id), (SET, "cordoned.log.dirs", "/only/there"))[0] == 42
