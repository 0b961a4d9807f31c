"""Random legal requests: a sequence is a list of steps, the same for every broker that is asked.

A value that only a broker knows (topic ids, member ids, producer ids, session ids) is a binding: each broker has its
own bindings. A step is built from them for each broker, and stores values from the response in them.
"""

from __future__ import annotations

import random
import struct
from typing import Any

import msgspec

from moldau.types import ZERO_UUID
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey
from moldau.wire.protocol.messages import (
    api_versions,
    client_quotas,
    cluster,
    configs,
    coordinators,
    delete_records,
    fetch,
    group_admin,
    groups_classic,
    leader_epochs,
    list_offsets,
    log_dirs,
    metadata,
    offsets,
    partitions,
    produce,
    producer_ids,
    raft_voters,
    topics,
)
from moldau.wire.protocol.schema import Array, Nested, fields_of
from moldau.wire.records.builder import build_batch
from tests.differential.refused_requests import REFUSED
from tests.differential.step import Bindings, Step
from tests.differential.transaction_steps import OF_TRANSACTIONS, TransactionSteps

TOPIC, BROKER, GROUP = 2, 4, 32
SESSION_TIMEOUT_MS = 300_000
TOPIC_AUTHORIZATION_FAILED = 29
TRANSACTIONAL_SHARE = 0.4
MORE_OF_TRANSACTIONS = 20
ROUNDS = max(row.max_version - row.min_version + 1 for row in API_VERSIONS.values())
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPIC_SETTINGS = (
    ("retention.ms", "86400000"),
    ("retention.ms", "-2"),
    ("max.message.bytes", "2000"),
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "delete"),
    ("segment.bytes", "1048576"),
    ("segment.bytes", "12"),
    ("message.timestamp.type", "LogAppendTime"),
    ("message.timestamp.type", "CreateTime"),
    ("compression.type", "zstd"),
    ("compression.type", "producer"),
    ("min.insync.replicas", "2"),
    ("no.such.setting", "1"),
    ("flush.messages", "x"),
)


def trimmed(message: Any, version: int) -> Any:
    """`message` with fields that this version lacks reset to their defaults, in nested structs too."""
    changes: dict[str, Any] = {}
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        if not field.is_present(version):
            changes[field.name] = field.default
        elif value is None:
            continue
        elif isinstance(field.type, Nested):
            changes[field.name] = trimmed(value, version)
        elif isinstance(field.type, Array) and isinstance(field.type.element, Nested):
            changes[field.name] = tuple(trimmed(item, version) for item in value)
    return msgspec.structs.replace(message, **changes)


def subscription(*names: str) -> bytes:
    """ConsumerProtocolSubscription version 0."""
    texts = [name.encode() for name in names]
    body = b"".join(struct.pack(">h", len(text)) + text for text in texts)
    return struct.pack(">hi", 0, len(texts)) + body + struct.pack(">i", -1)


_OF_VOTERS = (ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER)
"""Rejected in every round, and therefore at its end."""


class Sequence(TransactionSteps):
    """One random sequence. The unique `prefix` keeps sequences on a long-lived broker apart."""

    def __init__(self, seed: int, prefix: str) -> None:
        self.random = random.Random(seed)
        self.prefix = prefix
        self.names = [f"{prefix}-t{n}" for n in range(3)]
        self.groups = [f"{prefix}-g{n}" for n in range(2)]
        self._sequences: dict[tuple[str, int], int] = {}
        self.transactional_share = TRANSACTIONAL_SHARE

    # -- choices

    def topic(self) -> str:
        return self.random.choice([*self.names, *self.names, f"{self.prefix}-missing"])

    def partition(self) -> int:
        return self.random.choice((0, 0, 0, 1, 1, 2, 7))

    def group(self) -> str:
        return self.random.choice(self.groups)

    def offset(self) -> int:
        return self.random.choice((0, 0, 1, 2, 3, 5, 8, 1000))

    def settings(self) -> list[tuple[str, str]]:
        """No name repeats: another test covers repeated names."""
        picked = self.random.sample(TOPIC_SETTINGS, self.random.choice((0, 0, 1, 2)))
        return list(dict(picked).items())

    def step(self, key: ApiKey, version: int | None = None) -> Step:
        row = API_VERSIONS[key]
        if version is None:
            version = self.random.randint(row.min_version, row.max_version)
        refused = REFUSED.get(key)
        if refused is not None:
            request, changes = refused(self.random, self.prefix)
            return Step(key, version, lambda _: request, changes=changes)
        made: Step = getattr(self, f"_{key.name.lower()}")(key, version)
        return made

    def opening(self) -> list[Step]:
        """Topics and records to ask about."""
        steps = [self._created(name, count, (), 7) for name, count in zip(self.names, (1, 2, 3), strict=True)]
        steps += [self.producer_begun(f"{self.prefix}-{name}") for name in ("x0", "x1")]
        return [*steps, *(self.step(ApiKey.PRODUCE, 9) for _ in range(3))]

    def random_steps(self, count: int) -> list[Step]:
        return self.opening() + self.drawn_steps(count)

    def drawn_steps(self, count: int, but: tuple[ApiKey, ...] = ()) -> list[Step]:
        """The steps after the opening, none of an API of `but`."""
        if self.random.random() < 0.5:
            return self.transactional_steps(count)
        keys = [key for key in API_VERSIONS if key not in but]
        weights = [6 if key in (ApiKey.PRODUCE, ApiKey.FETCH) else 2 for key in keys]
        return [self.step(key) for key in self.random.choices(keys, weights, k=count)]

    def transactional_steps(self, count: int) -> list[Step]:
        """Only many transactional requests in a row make progress."""
        self.transactional_share = 0.9
        return [self.step(key) for key in self.random.choices(OF_TRANSACTIONS, k=count)]

    def covering_steps(self, round_number: int) -> list[Step]:
        """One step of each API; all rounds of ROUNDS together cover every version."""
        steps = self.opening()
        drawn = [key for key in API_VERSIONS if key not in _OF_VOTERS]
        for key in (*self.random.sample(drawn, len(drawn)), *_OF_VOTERS):
            row = API_VERSIONS[key]
            steps.append(self.step(key, row.min_version + round_number % (row.max_version - row.min_version + 1)))
        return steps + self.transactional_steps(MORE_OF_TRANSACTIONS)

    # -- records

    def _produce(self, key: ApiKey, version: int) -> Step:
        if self.random.random() < self.transactional_share:
            return self.transactional_produce(key, version)
        name, index, codec = self.topic(), self.partition(), self.random.choice(CODECS[: 4 if version < 7 else 5])
        records = [
            (self.random.choice((b"k1", b"k2", b"k3")), b"v%d" % n * self.random.choice((1, 50)), n)
            for n in range(self.random.randint(1, 3))
        ]
        producer = self.random.choice(("", "", "a", "b"))
        acks = self.random.choice((1, -1))
        shift = self.random.randrange(1000) * 10
        sequence = self._sequences.get((producer, index), 0) if producer else -1
        if producer and self.random.random() < 0.8:
            self._sequences[producer, index] = sequence + len(records)

        def make(bindings: Bindings) -> Any:
            producer_id, epoch = bindings.get(f"producer:{producer}", (-1, -1)) if producer else (-1, -1)
            batch = build_batch(
                [(k, v, bindings.base_ms + shift + n, ()) for k, v, n in records],
                compression=codec,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence if producer_id >= 0 else -1,
            )
            data = produce.PartitionProduceData(index=index, records=batch)
            topic = produce.TopicProduceData(name=name, topic_id=bindings.topic_id(name), partition_data=(data,))
            return produce.ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=(topic,))

        return Step(key, version, make)

    def _fetch(self, key: ApiKey, version: int) -> Step:
        wanted = [(self.topic(), self.partition(), self.offset()) for _ in range(self.random.randint(1, 2))]
        wanted = list({(name, index): (name, index, offset) for name, index, offset in wanted}.values())
        isolation, in_session = self.random.choice((0, 1)), version >= 7 and self.random.random() < 0.5
        partition_max = self.random.choice((1, 1 << 20))

        def make(bindings: Bindings) -> Any:
            by_topic: dict[str, list[Any]] = {}
            for name, index, offset in wanted:
                by_topic.setdefault(name, []).append(
                    fetch.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=partition_max)
                )
            session_id, epoch = bindings.get("session", (0, 0)) if in_session else (0, -1)
            return fetch.FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=1 << 20,
                isolation_level=isolation,
                session_id=session_id,
                session_epoch=epoch,
                topics=tuple(
                    fetch.FetchTopic(topic=name, topic_id=bindings.topic_id(name), partitions=tuple(items))
                    for name, items in by_topic.items()
                ),
            )

        def learn(bindings: Bindings, answer: Any) -> None:
            if in_session:
                _, epoch = bindings.get("session", (0, 0))
                is_known = answer.error_code == 0 and answer.session_id
                bindings.values["session"] = (answer.session_id, epoch + 1) if is_known else (0, 0)

        return Step(key, version, make, learn)

    def _list_offsets(self, key: ApiKey, version: int) -> Step:
        name, index, level = self.topic(), self.partition(), self.random.choice((0, 1))
        special = self.random.choice((-1, -2, -3, -4, None, None))
        shift = self.random.randrange(1000) * 10

        def make(bindings: Bindings) -> Any:
            timestamp = bindings.base_ms + shift if special is None else special
            item = list_offsets.ListOffsetsPartition(partition_index=index, timestamp=timestamp)
            topic = list_offsets.ListOffsetsTopic(name=name, partitions=(item,))
            return list_offsets.ListOffsetsRequest(replica_id=-1, isolation_level=level, topics=(topic,))

        return Step(key, version, make)

    def _delete_records(self, key: ApiKey, version: int) -> Step:
        name, index, offset = self.topic(), self.partition(), self.random.choice((-1, 0, 1, 2, 1000))
        item = delete_records.DeleteRecordsPartition(partition_index=index, offset=offset)
        topic = delete_records.DeleteRecordsTopic(name=name, partitions=(item,))
        request = delete_records.DeleteRecordsRequest(topics=(topic,), timeout_ms=30_000)
        return Step(key, version, lambda _: request)

    def _offset_for_leader_epoch(self, key: ApiKey, version: int) -> Step:
        item = leader_epochs.OffsetForLeaderPartition(
            partition=self.partition(),
            current_leader_epoch=self.random.choice((-1, 0, 5)),
            leader_epoch=self.random.choice((0, 0, 3)),
        )
        topic = leader_epochs.OffsetForLeaderTopic(topic=self.topic(), partitions=(item,))
        request = leader_epochs.OffsetForLeaderEpochRequest(replica_id=-1, topics=(topic,))
        return Step(key, version, lambda _: request)

    def _init_producer_id(self, key: ApiKey, version: int) -> Step:
        if self.random.random() < self.transactional_share:
            return self.transactional_init(key, version)
        producer = self.random.choice(("a", "b"))
        for known in [known for known in self._sequences if known[0] == producer]:
            del self._sequences[known]

        def learn(bindings: Bindings, answer: Any) -> None:
            bindings.values[f"producer:{producer}"] = (answer.producer_id, answer.producer_epoch)

        request = producer_ids.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        return Step(key, version, lambda _: request, learn)

    def _describe_producers(self, key: ApiKey, version: int) -> Step:
        topic = producer_ids.DescribeProducersTopic(name=self.topic(), partition_indexes=(self.partition(),))
        request = producer_ids.DescribeProducersRequest(topics=(topic,))
        return Step(key, version, lambda _: request)

    # -- topics

    def _created(self, name: str, count: int, settings: tuple[tuple[str, str], ...], version: int) -> Step:
        made = topics.CreatableTopic(
            name=name,
            num_partitions=count,
            replication_factor=1,
            configs=tuple(topics.CreatableTopicConfig(name=setting, value=text) for setting, text in settings),
        )
        request = topics.CreateTopicsRequest(topics=(made,))

        def expected(answer: Any) -> int | None:
            return max(count, 1) if answer.topics[0].error_code == 0 else None

        return Step(ApiKey.CREATE_TOPICS, version, lambda _: request, changes=True, names=(name,), expected=expected)

    def _create_topics(self, key: ApiKey, version: int) -> Step:
        count = self.random.choice((1, 2, 3, 0, -1 if version >= 4 else 1))
        return self._created(self.random.choice(self.names), count, tuple(self.settings()), version)

    def _delete_topics(self, key: ApiKey, version: int) -> Step:
        name, by_id = self.topic(), self.random.random() < 0.5

        def make(bindings: Bindings) -> Any:
            known = bindings.topic_id(name)
            state = topics.DeleteTopicState(topic_id=known) if by_id else topics.DeleteTopicState(name=name)
            return topics.DeleteTopicsRequest(topics=(state,), topic_names=(name,), timeout_ms=30_000)

        def expected(answer: Any) -> int | None:
            return 0 if answer.responses[0].error_code == 0 else None

        return Step(key, version, make, changes=True, names=(name,), expected=expected)

    def _metadata(self, key: ApiKey, version: int) -> Step:
        name, by_id = self.topic(), version >= 12 and self.random.random() < 0.5

        def make(bindings: Bindings) -> Any:
            if by_id:
                asked = metadata.MetadataRequestTopic(name=None, topic_id=bindings.topic_id(name))
            else:
                asked = metadata.MetadataRequestTopic(name=name, topic_id=ZERO_UUID)
            return metadata.MetadataRequest(topics=(asked,), allow_auto_topic_creation=version < 4)

        # v0-3 always create, if the user may
        def expected(answer: Any) -> int | None:
            (topic,) = answer.topics
            return None if topic.error_code == TOPIC_AUTHORIZATION_FAILED else max(len(topic.partitions), 1)

        return Step(key, version, make, changes=version < 4, names=(name,), expected=expected)

    def _create_partitions(self, key: ApiKey, version: int) -> Step:
        name = self.topic()
        count = self.random.choice((1, 2, 3, 4, 0, -1))
        topic = partitions.CreatePartitionsTopic(name=name, count=count, assignments=None)
        only = self.random.random() < 0.3
        request = partitions.CreatePartitionsRequest(topics=(topic,), timeout_ms=30_000, validate_only=only)

        def expected(answer: Any) -> int | None:
            return count if answer.results[0].error_code == 0 else None

        return Step(key, version, lambda _: request, changes=not only, names=(name,), expected=expected)

    def _describe_topic_partitions(self, key: ApiKey, version: int) -> Step:
        asked = tuple(
            partitions.DescribeTopicPartitionsTopicRequest(name=name) for name in sorted({self.topic(), self.topic()})
        )
        request = partitions.DescribeTopicPartitionsRequest(
            topics=asked, response_partition_limit=self.random.choice((1, 2, 2000)), cursor=None
        )
        return Step(key, version, lambda _: request)

    def _elect_leaders(self, key: ApiKey, version: int) -> Step:
        asked = partitions.ElectionTopicPartitions(topic=self.topic(), partitions=(self.partition(),))
        request = partitions.ElectLeadersRequest(
            election_type=self.random.choice((0, 1)), topic_partitions=(asked,), timeout_ms=30_000
        )
        return Step(key, version, lambda _: request)

    def _alter_partition_reassignments(self, key: ApiKey, version: int) -> Step:
        item = partitions.ReassignablePartition(
            partition_index=self.partition(), replicas=self.random.choice((None, (1,), (2,), (), (1, 1)))
        )
        topic = partitions.ReassignableTopic(name=self.topic(), partitions=(item,))
        request = partitions.AlterPartitionReassignmentsRequest(topics=(topic,), timeout_ms=30_000)
        return Step(key, version, lambda _: request)

    def _list_partition_reassignments(self, key: ApiKey, version: int) -> Step:
        asked = partitions.ListPartitionReassignmentsTopics(name=self.topic(), partition_indexes=(self.partition(),))
        request = partitions.ListPartitionReassignmentsRequest(topics=(asked,), timeout_ms=30_000)
        return Step(key, version, lambda _: request)

    # -- configs

    def _describe_configs(self, key: ApiKey, version: int) -> Step:
        asked = self.random.choice(
            (
                configs.DescribeConfigsResource(TOPIC, self.topic(), None),
                configs.DescribeConfigsResource(TOPIC, self.topic(), ("retention.ms", "cleanup.policy", "nothing")),
                configs.DescribeConfigsResource(
                    BROKER, "1", ("log.retention.ms", "message.max.bytes", "num.io.threads")
                ),
                configs.DescribeConfigsResource(BROKER, "9", None),
                configs.DescribeConfigsResource(GROUP, self.group(), None),
            )
        )
        request = configs.DescribeConfigsRequest(resources=(asked,), include_synonyms=self.random.random() < 0.5)
        return Step(key, version, lambda _: request)

    def _alter_configs(self, key: ApiKey, version: int) -> Step:
        name, only = self.topic(), self.random.random() < 0.3
        changes = tuple(configs.AlterableConfig(setting, text) for setting, text in self.settings())
        resource = configs.AlterConfigsResource(TOPIC, name, changes)
        request = configs.AlterConfigsRequest(resources=(resource,), validate_only=only)
        return Step(key, version, lambda _: request, changes=not only, names=(name,))

    def _incremental_alter_configs(self, key: ApiKey, version: int) -> Step:
        name, only = self.topic(), self.random.random() < 0.3
        changes = tuple(
            configs.IncrementalAlterableConfig(setting, self.random.choice((0, 0, 1, 2, 3)), text)
            for setting, text in self.settings()
        )
        resource = configs.IncrementalAlterConfigsResource(TOPIC, name, changes)
        request = configs.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=only)
        return Step(key, version, lambda _: request, changes=not only, names=(name,))

    def _list_config_resources(self, key: ApiKey, version: int) -> Step:
        request = configs.ListConfigResourcesRequest(resource_types=self.random.choice(((2,), (4,), (2, 16), (99,))))
        return Step(key, version, lambda _: request)

    # -- groups

    def _find_coordinator(self, key: ApiKey, version: int) -> Step:
        if version >= 1 and self.random.random() < self.transactional_share:
            return self.transactional_find(key, version)
        group = self.group()
        request = coordinators.FindCoordinatorRequest(key=group, key_type=0, coordinator_keys=(group,))
        return Step(key, version, lambda _: request)

    def _join_group(self, key: ApiKey, version: int) -> Step:
        group = self.group()
        protocol = groups_classic.JoinGroupRequestProtocol(name="range", metadata=subscription(self.names[0]))

        def make(bindings: Bindings) -> Any:
            return groups_classic.JoinGroupRequest(
                group_id=group,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=SESSION_TIMEOUT_MS,
                member_id=bindings.get(f"member:{group}", ("", -1))[0],
                protocol_type="consumer",
                protocols=(protocol,),
            )

        def learn(bindings: Bindings, answer: Any) -> None:
            if answer.error_code in (0, 79):
                bindings.values[f"member:{group}"] = (answer.member_id, answer.generation_id)
            else:
                bindings.values.pop(f"member:{group}", None)

        return Step(key, version, make, learn)

    def _sync_group(self, key: ApiKey, version: int) -> Step:
        group = self.group()

        def make(bindings: Bindings) -> Any:
            member, generation = bindings.get(f"member:{group}", ("", -1))
            mine = groups_classic.SyncGroupRequestAssignment(member_id=member, assignment=b"\x00\x00")
            return groups_classic.SyncGroupRequest(
                group_id=group,
                generation_id=generation,
                member_id=member,
                protocol_type="consumer",
                protocol_name="range",
                assignments=(mine,),
            )

        return Step(key, version, make)

    def _heartbeat(self, key: ApiKey, version: int) -> Step:
        group = self.group()

        def make(bindings: Bindings) -> Any:
            member, generation = bindings.get(f"member:{group}", ("", -1))
            return groups_classic.HeartbeatRequest(group_id=group, generation_id=generation, member_id=member)

        return Step(key, version, make)

    def _leave_group(self, key: ApiKey, version: int) -> Step:
        group = self.group()

        def make(bindings: Bindings) -> Any:
            member, _ = bindings.get(f"member:{group}", ("nobody", -1))
            identity = groups_classic.MemberIdentity(member_id=member)
            return groups_classic.LeaveGroupRequest(group_id=group, member_id=member, members=(identity,))

        def learn(bindings: Bindings, answer: Any) -> None:
            bindings.values.pop(f"member:{group}", None)

        return Step(key, version, make, learn)

    def _offset_commit(self, key: ApiKey, version: int) -> Step:
        group, name, index = self.group(), self.topic(), self.partition()
        offset, is_member = self.offset(), self.random.random() < 0.6
        note = self.random.choice(("", "note"))

        def make(bindings: Bindings) -> Any:
            member, generation = bindings.get(f"member:{group}", ("", -1)) if is_member else ("", -1)
            item = offsets.OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=note
            )
            topic = offsets.OffsetCommitRequestTopic(name=name, topic_id=bindings.topic_id(name), partitions=(item,))
            return offsets.OffsetCommitRequest(
                group_id=group, generation_id_or_member_epoch=generation, member_id=member, topics=(topic,)
            )

        return Step(key, version, make)

    def _offset_fetch(self, key: ApiKey, version: int) -> Step:
        group, name, index = self.group(), self.topic(), self.partition()
        is_all, is_stable = version >= 2 and self.random.random() < 0.3, self.random.random() < 0.5

        def make(bindings: Bindings) -> Any:
            old = offsets.OffsetFetchRequestTopic(name=name, partition_indexes=(index,))
            new = offsets.OffsetFetchRequestTopics(
                name=name, topic_id=bindings.topic_id(name), partition_indexes=(index,)
            )
            asked = offsets.OffsetFetchRequestGroup(group_id=group, topics=None if is_all else (new,))
            rows = None if is_all else (old,)
            return offsets.OffsetFetchRequest(group, rows, groups=(asked,), require_stable=is_stable)

        return Step(key, version, make)

    def _describe_groups(self, key: ApiKey, version: int) -> Step:
        request = groups_classic.DescribeGroupsRequest(groups=(self.group(),))
        return Step(key, version, lambda _: request)

    def _list_groups(self, key: ApiKey, version: int) -> Step:
        request = groups_classic.ListGroupsRequest(states_filter=self.random.choice(((), ("Empty",), ("Stable",))))
        return Step(key, version, lambda _: request)

    def _delete_groups(self, key: ApiKey, version: int) -> Step:
        request = group_admin.DeleteGroupsRequest(groups_names=(self.random.choice([*self.groups, "nobody"]),))
        return Step(key, version, lambda _: request)

    def _offset_delete(self, key: ApiKey, version: int) -> Step:
        item = group_admin.OffsetDeleteRequestPartition(partition_index=self.partition())
        topic = group_admin.OffsetDeleteRequestTopic(name=self.topic(), partitions=(item,))
        request = group_admin.OffsetDeleteRequest(group_id=self.group(), topics=(topic,))
        return Step(key, version, lambda _: request)

    # -- the cluster

    def _api_versions(self, key: ApiKey, version: int) -> Step:
        request = api_versions.ApiVersionsRequest(client_software_name="differential", client_software_version="1")
        return Step(key, version, lambda _: request)

    def _describe_cluster(self, key: ApiKey, version: int) -> Step:
        request = cluster.DescribeClusterRequest(
            include_cluster_authorized_operations=self.random.random() < 0.5,
            endpoint_type=self.random.choice((1, 1, 9)),
        )
        return Step(key, version, lambda _: request)

    def _describe_quorum(self, key: ApiKey, version: int) -> Step:
        asked = cluster.DescribeQuorumTopic("__cluster_metadata", (cluster.DescribeQuorumPartition(0),))
        request = cluster.DescribeQuorumRequest(topics=(asked,))
        return Step(key, version, lambda _: request)

    def _update_features(self, key: ApiKey, version: int) -> Step:
        feature, level = self.random.choice((("no.such.feature", 1), ("group.version", 9), ("metadata.version", 99)))
        update = cluster.FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=1)
        request = cluster.UpdateFeaturesRequest(feature_updates=(update,), validate_only=version >= 1)
        return Step(key, version, lambda _: request)

    def _unregister_broker(self, key: ApiKey, version: int) -> Step:
        request = cluster.UnregisterBrokerRequest(broker_id=9)
        return Step(key, version, lambda _: request)

    def _unregister_controller(self, key: ApiKey, version: int) -> Step:
        request = cluster.UnregisterControllerRequest(controller_id=9)
        return Step(key, version, lambda _: request)

    def _add_raft_voter(self, key: ApiKey, version: int) -> Step:
        request = raft_voters.AddRaftVoterRequest(cluster_id=None, timeout_ms=1_000, voter_id=9)
        return Step(key, version, lambda _: request)

    def _remove_raft_voter(self, key: ApiKey, version: int) -> Step:
        request = raft_voters.RemoveRaftVoterRequest(cluster_id=None, voter_id=9)
        return Step(key, version, lambda _: request)

    def _alter_replica_log_dirs(self, key: ApiKey, version: int) -> Step:
        topic = log_dirs.AlterReplicaLogDirTopic(name=self.topic(), partitions=(self.partition(),))
        move = log_dirs.AlterReplicaLogDir(path="/no/such/directory", topics=(topic,))
        request = log_dirs.AlterReplicaLogDirsRequest(dirs=(move,))
        return Step(key, version, lambda _: request)

    def _describe_log_dirs(self, key: ApiKey, version: int) -> Step:
        topic = log_dirs.DescribableLogDirTopic(topic=self.topic(), partitions=(0, 1))
        request = log_dirs.DescribeLogDirsRequest(topics=(topic,))
        return Step(key, version, lambda _: request)

    def _describe_client_quotas(self, key: ApiKey, version: int) -> Step:
        asked = client_quotas.QuotaFilterComponent(entity_type="user", match_type=0, match=f"{self.prefix}-u")
        request = client_quotas.DescribeClientQuotasRequest(components=(asked,), strict=self.random.random() < 0.5)
        return Step(key, version, lambda _: request)

    def _alter_client_quotas(self, key: ApiKey, version: int) -> Step:
        entity = client_quotas.AlterQuotaEntity(entity_type="user", entity_name=f"{self.prefix}-u")
        operation = client_quotas.AlterQuotaOperation(
            key=self.random.choice(("producer_byte_rate", "consumer_byte_rate", "no_such_rate")),
            value=self.random.choice((1e9, 2e9, -1.0)),
            remove=self.random.random() < 0.3,
        )
        entry = client_quotas.AlterQuotaEntry(entity=(entity,), ops=(operation,))
        only = self.random.random() < 0.3
        request = client_quotas.AlterClientQuotasRequest(entries=(entry,), validate_only=only)
        return Step(key, version, lambda _: request, changes=not only)
