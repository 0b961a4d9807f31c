"""Brokers come, serve and go: registration, unfencing, controlled and unclean ends, as records of Apache Kafka.

The order of a life: BrokerRegistration (fenced) -> BrokerHeartbeat (its partitions get it as leader) -> BrokerHeartbeat
that wants to shut down (its partitions lose it, then it is fenced). A broker that registers while it still counts as
serving has crashed: it is fenced first. If it brings no mark of a clean stop, what it held may be incomplete: it is no
eligible leader (KIP-966).

A change of many partitions is cut into batches: each decision does one, and the broker asks again until all is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.controller.configs import min_insync_replicas
from moldau.core.controller.elections import change_in_sync
from moldau.core.controller.requests import RegisterController
from moldau.core.metadata.features import ELIGIBLE_LEADER_REPLICAS, SUPPORTED_FEATURES, RecordVersions
from moldau.core.metadata.fold import MetadataRecord
from moldau.core.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from moldau.errors import ERROR_CODES, kafka_error
from moldau.wire.protocol.messages.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from moldau.wire.protocol.messages.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)

if TYPE_CHECKING:
    from moldau.wire.protocol.messages.cluster import UnregisterBrokerRequest, UnregisterBrokerResponse

MAX_CHANGES_PER_STEP = 9_000
"""Partition changes in one batch; a batch of `__cluster_metadata` holds at most 10,000 records."""

UNFENCED = -1
FENCED = 1

_AGAIN = BrokerRegistrationResponse(error_code=ERROR_CODES["DUPLICATE_BROKER_REGISTRATION"])
_STOPPING = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)
_SHUT_DOWN = BrokerHeartbeatResponse(is_caught_up=True, should_shut_down=True)


def register_controller(request: RegisterController) -> list[MetadataRecord]:
    """A controller announces itself at each start."""
    points = tuple(
        ControllerEndpoint(point.name, point.host, point.port, point.security_protocol) for point in request.listeners
    )
    features = tuple(
        ControllerFeature(feature.name, feature.min_level, feature.max_level) for feature in SUPPORTED_FEATURES
    )
    return [RegisterControllerRecord(request.controller_id, request.incarnation_id, False, points, features)]


def register_broker(
    image: MetadataImage, settings: BrokerSettings, request: BrokerRegistrationRequest
) -> tuple[list[MetadataRecord], BrokerRegistrationResponse]:
    """Fences what still counts as serving, takes back the eligibility of an unclean predecessor, registers.

    While the earlier life is not ended, the answer is DUPLICATE_BROKER_REGISTRATION: the broker registers again.
    """
    old = image.brokers.get(request.broker_id)
    is_clean = old is None or request.previous_broker_epoch == old.epoch
    changes = _Changes(image, settings, request.broker_id)
    if old is not None and not old.is_fenced:
        records = changes.leave()
        if changes.is_complete:
            records.append(BrokerRegistrationChangeRecord(old.broker_id, old.epoch, fenced=FENCED))
        return records, _AGAIN
    records = [] if is_clean else changes.lose_eligibility()
    if not changes.is_complete:
        return records, _AGAIN
    versions = RecordVersions.for_levels(image.features)
    points = tuple(
        BrokerEndpoint(point.name, point.host, point.port, point.security_protocol) for point in request.listeners
    )
    features = tuple(
        BrokerFeature(feature.name, feature.min_supported_version, feature.max_supported_version)
        for feature in request.features
    )
    records.append(
        RegisterBrokerRecord(
            broker_id=request.broker_id,
            incarnation_id=request.incarnation_id,
            broker_epoch=image.end_offset,
            end_points=points,
            features=features,
            rack=request.rack,
            fenced=True,
            log_dirs=request.log_dirs if versions.register_broker >= 3 else (),
        )
    )
    return records, BrokerRegistrationResponse(broker_epoch=image.end_offset)


def heartbeat(
    image: MetadataImage, settings: BrokerSettings, request: BrokerHeartbeatRequest
) -> tuple[list[MetadataRecord], BrokerHeartbeatResponse]:
    """A broker that serves: lifts its fence, then makes it leader of the partitions that have none; it has caught up
    when no partition is left. One that wants to stop: marks it, moves its partitions away from it, and last fences it
    in a batch of its own; then it should shut down.

    Of the request the rest is not looked at: a broker registers when it serves.
    """
    broker = _registered(image, request.broker_id, request.broker_epoch)
    changes = _Changes(image, settings, request.broker_id)
    if request.want_shut_down:
        return _shut_down(broker, changes)
    records: list[MetadataRecord] = []
    if broker.is_fenced:
        records.append(BrokerRegistrationChangeRecord(broker.broker_id, broker.epoch, fenced=UNFENCED))
        if RecordVersions.for_levels(image.features).can_cordon and broker.cordoned_log_directories is None:
            records.append(BrokerRegistrationChangeRecord(broker.broker_id, broker.epoch, cordoned_log_dirs=()))
    records += changes.come_back()
    return records, BrokerHeartbeatResponse(is_caught_up=changes.is_complete, is_fenced=False)


def _shut_down(broker: BrokerImage, changes: _Changes) -> tuple[list[MetadataRecord], BrokerHeartbeatResponse]:
    if broker.is_fenced:
        return [], _SHUT_DOWN
    records = changes.leave()
    if not broker.is_in_controlled_shutdown:
        stopping = BrokerRegistrationChangeRecord(broker.broker_id, broker.epoch, in_controlled_shutdown=1)
        return [stopping, *records], _STOPPING
    if records:
        return records, _STOPPING
    return [BrokerRegistrationChangeRecord(broker.broker_id, broker.epoch, fenced=FENCED)], _SHUT_DOWN


def unregister_broker(
    image: MetadataImage, settings: BrokerSettings, request: UnregisterBrokerRequest
) -> tuple[list[MetadataRecord], UnregisterBrokerResponse]:
    """Forgets a broker that is gone. One that serves is refused: Apache Kafka forgets it too, and a cluster whose only
    broker was forgotten serves nobody until that broker is started again.

    Raises BROKER_ID_NOT_REGISTERED, INVALID_REQUEST, REQUEST_TIMED_OUT (too many partitions for one batch: again).
    """
    from moldau.wire.protocol.messages.cluster import UnregisterBrokerResponse

    broker = image.brokers.get(request.broker_id)
    if broker is None:
        raise kafka_error("BROKER_ID_NOT_REGISTERED", f"Broker ID {request.broker_id} is not currently registered")
    if broker.is_active:
        raise kafka_error(
            "INVALID_REQUEST", f"Broker {request.broker_id} is serving: stop it before it is unregistered."
        )
    changes = _Changes(image, settings, request.broker_id)
    records = changes.leave()
    if not changes.is_complete:
        raise kafka_error("REQUEST_TIMED_OUT", "too many partitions for one batch")
    records.append(UnregisterBrokerRecord(broker.broker_id, broker.epoch))
    return records, UnregisterBrokerResponse()


def _registered(image: MetadataImage, broker_id: int, broker_epoch: int) -> BrokerImage:
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise kafka_error("BROKER_ID_NOT_REGISTERED", f"Broker ID {broker_id} is not currently registered")
    if broker.epoch != broker_epoch:
        raise kafka_error(
            "STALE_BROKER_EPOCH", f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}"
        )
    return broker


class _Changes:
    """The partition changes that one broker's coming or going asks for, up to a batch of them."""

    def __init__(self, image: MetadataImage, settings: BrokerSettings, broker_id: int) -> None:
        self.is_complete = True
        """False once a batch was full before all partitions were seen."""
        self._image = image
        self._settings = settings
        self._broker_id = broker_id
        self._has_elr = image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0

    def leave(self) -> list[MetadataRecord]:
        """The broker is neither in sync nor leader anywhere."""

        def change(topic: TopicImage, index: int, old: PartitionImage, minimum: int) -> PartitionChangeRecord | None:
            if self._broker_id not in old.isr and old.leader != self._broker_id:
                return None
            target = tuple(replica for replica in old.isr if replica != self._broker_id)
            return self._change(topic, index, old, minimum, target, self._is_active_elsewhere)

        return self._collect(change)

    def lose_eligibility(self) -> list[MetadataRecord]:
        """What the broker holds may be incomplete: it is no eligible leader replica."""

        def change(topic: TopicImage, index: int, old: PartitionImage, minimum: int) -> PartitionChangeRecord | None:
            if self._broker_id not in old.eligible_leader_replicas:
                return None
            return self._change(topic, index, old, minimum, old.isr, self._is_active_elsewhere, (self._broker_id,))

        return self._collect(change) if self._has_elr else []

    def come_back(self) -> list[MetadataRecord]:
        """The broker leads every partition that has no leader and may have it."""

        def change(topic: TopicImage, index: int, old: PartitionImage, minimum: int) -> PartitionChangeRecord | None:
            if old.leader >= 0 or self._broker_id not in old.replicas:
                return None
            return self._change(topic, index, old, minimum, old.isr, self._is_active_with)

        return self._collect(change)

    def _is_active_elsewhere(self, broker_id: int) -> bool:
        return broker_id != self._broker_id and self._is_active(broker_id)

    def _is_active_with(self, broker_id: int) -> bool:
        return broker_id == self._broker_id or self._is_active(broker_id)

    def _is_active(self, broker_id: int) -> bool:
        broker = self._image.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def _change(
        self,
        topic: TopicImage,
        partition_id: int,
        old: PartitionImage,
        minimum: int,
        target_isr: tuple[int, ...],
        is_active: Callable[[int], bool],
        lost_replicas: tuple[int, ...] = (),
    ) -> PartitionChangeRecord | None:
        return change_in_sync(
            topic.topic_id,
            partition_id,
            old,
            target_isr=target_isr,
            is_active=is_active,
            min_insync_replicas=minimum,
            has_elr=self._has_elr,
            lost_replicas=lost_replicas,
        )

    def _collect(
        self, change: Callable[[TopicImage, int, PartitionImage, int], PartitionChangeRecord | None]
    ) -> list[MetadataRecord]:
        records: list[MetadataRecord] = []
        for topic, partition_id, old, minimum in self._partitions():
            record = change(topic, partition_id, old, minimum)
            if record is None:
                continue
            if len(records) == MAX_CHANGES_PER_STEP:
                self.is_complete = False
                break
            records.append(record)
        return records

    def _partitions(self) -> Iterator[tuple[TopicImage, int, PartitionImage, int]]:
        for topic in self._image.topics_by_id.values():
            minimum = min_insync_replicas(self._image, topic.name, self._settings)
            for partition_id, old in topic.partitions.items():
                yield topic, partition_id, old, minimum
