"""The controller's machine with a list as its log, a clock and its timers; and brokers that send it requests."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.controller.machine import ControllerMachine
from moldau.core.controller.requests import ActivateController, ControllerRequest
from moldau.core.coordination.machine import NO_REQUEST_ID, Now, Timer
from moldau.core.metadata.features import FORMATTED_LEVELS, REGISTERED_FEATURES
from moldau.core.metadata.fold import MetadataFold, MetadataRecord
from moldau.core.metadata.image import PartitionImage
from moldau.errors import KafkaError
from moldau.shell.io.simulated.random import SeededRandom
from moldau.types import Offset, ProducerEpoch, ProducerId, Uuid, whole
from moldau.wire.protocol.messages.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    RegisteredListener,
)
from moldau.wire.protocol.messages.in_sync_replicas import (
    AlterPartitionRequest,
    BrokerState,
    ProposedPartition,
    ProposedTopic,
)
from moldau.wire.protocol.messages.metadata_records import (
    FeatureLevelRecord,
)
from moldau.wire.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

BOOTSTRAP = tuple(FeatureLevelRecord(name, level) for name, level in FORMATTED_LEVELS)
SESSION_MS = 9_000


class Controller:
    """The controller's machine in node 1, with a list as its log, a clock, and its timers."""

    def __init__(self, *broker_ids: int, bootstrap: tuple[MetadataRecord, ...] = BOOTSTRAP, **settings: str) -> None:
        """`broker_ids`: brokers that have started."""
        self.bootstrap = bootstrap
        self.settings = {name.replace("_", "."): text for name, text in settings.items()}
        self.log: list[MetadataRecord] = []
        self.state = MetadataFold("cluster")
        self.now_ms = 0
        self.activate()
        self.start(*broker_ids)

    def activate(self) -> None:
        """A controller knows the log only when it becomes active."""
        settings = parse_broker_settings(self.settings)
        self.machine = ControllerMachine("cluster", settings, SeededRandom(1), lambda: 0)
        self.timers: dict[object, Timer[ControllerRequest]] = {}
        self.ask(ActivateController(self.bootstrap))

    def ask(self, request: Any, request_id: int = 7) -> Any:
        """The response; `last` has the written records."""
        decision = whole(self.machine.decide(self.state, request_id, request, Now(self.now_ms, 0)))
        for timer in decision.timers:
            self.timers[timer.key] = timer
        for record in decision.records:
            self.machine.apply(self.state, Offset(len(self.log)), ProducerId(-1), ProducerEpoch(-1), record)
            self.log.append(record)
        self.state.take_delta(Offset(len(self.log)), 1)
        self.last = decision.records
        return decision.replies[0][1] if decision.replies else None

    def code(self, request: Any) -> int:
        """The error code."""
        with pytest.raises(KafkaError) as caught:
            self.ask(request)
        return caught.value.code

    def wait(self, for_ms: int) -> list[MetadataRecord]:
        """Gives what the timers write meanwhile."""
        end_ms, length = self.now_ms + for_ms, len(self.log)
        while True:
            due = min(self.timers.values(), key=lambda timer: timer.deadline_ms or 0, default=None)
            if due is None or due.deadline_ms is None or due.deadline_ms > end_ms:
                self.now_ms = end_ms
                return self.log[length:]
            self.now_ms = max(self.now_ms, due.deadline_ms)
            del self.timers[due.key]
            self.ask(due.request, NO_REQUEST_ID)

    def wait_until(self, now_ms: int) -> None:
        """Fires the timers that are due by then."""
        self.wait(now_ms - self.now_ms)

    def register(self, broker_id: int, life: int = 1, **changes: Any) -> int:
        """Gives the broker epoch."""
        response = self.ask(msgspec.structs.replace(registration(broker_id, life), **changes))
        assert response.error_code == 0
        return int(response.broker_epoch)

    def epoch(self, broker_id: int) -> int:
        return self.state.image.brokers[broker_id].epoch

    def beat(self, broker_id: int, offset: int | None = None, **wants: Any) -> BrokerHeartbeatResponse:
        """A heartbeat of a broker that has applied everything, or everything up to `offset`. None of its directories is
        cordoned, unless `wants` says so."""
        reached = len(self.log) - 1 if offset is None else offset
        says = {"cordoned_log_dirs": ()} | wants
        response = self.ask(BrokerHeartbeatRequest(broker_id, self.epoch(broker_id), reached, **says))
        assert isinstance(response, BrokerHeartbeatResponse)
        return response

    def start(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.register(broker_id)
            assert not self.beat(broker_id).is_fenced

    def create(self, *replicas: int, **configs: str) -> Uuid:
        settings = tuple(CreatableTopicConfig(name.replace("_", "."), text) for name, text in configs.items())
        assignment = (CreatableReplicaAssignment(0, replicas),)
        response = self.ask(CreateTopicsRequest((CreatableTopic("t", -1, -1, assignment, settings),), 1000))
        assert response.topics[0].error_code == 0
        return Uuid(response.topics[0].topic_id)

    @property
    def partition(self) -> PartitionImage:
        return self.state.image.topics_by_name["t"].partitions[0]

    def propose(self, proposer: int, *isr: int, **changes: Any) -> Any:
        """AlterPartition by the leader with its knowledge of the partition, and `changes`; gives the response for
        it."""
        known, topic_id = self.partition, self.state.image.topics_by_name["t"].topic_id
        states = tuple(BrokerState(replica, self.epoch(replica)) for replica in isr)
        proposed = ProposedPartition(0, known.leader_epoch, (), states, 0, known.partition_epoch)
        topic = ProposedTopic(topic_id, (msgspec.structs.replace(proposed, **changes),))
        response = self.ask(AlterPartitionRequest(proposer, self.epoch(proposer), (topic,)))
        return response.topics[0].partitions[0]


def registration(broker_id: int, life: int = 1) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id,
        "cluster",
        Uuid(bytes([life]) * 16),
        (RegisteredListener("PLAINTEXT", "h", 9092),),
        REGISTERED_FEATURES,
        rack=None,
        log_dirs=(directory(broker_id),),
    )


def directory(broker_id: int) -> Uuid:
    return Uuid(bytes([0xDD, broker_id]) * 8)
