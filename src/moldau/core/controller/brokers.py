"""The life of a broker: heartbeats, controlled shutdown and fencing, as records of Apache Kafka.

The order: BrokerRegistration (fenced; registrations.py), BrokerHeartbeat (it becomes leader), BrokerHeartbeat that
wants to shut down (its partitions get other leaders, then it is fenced). A silent broker is fenced too (sessions.py,
rounds.py).

A change of many partitions is several batches. Each decision writes one, and the broker repeats its request until all
are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.controller.partition_changes import PartitionChanges
from moldau.core.controller.sessions import BrokerSessions
from moldau.core.metadata.features import RecordVersions
from moldau.core.metadata.fold import MetadataRecord
from moldau.core.metadata.image import BrokerImage, MetadataImage
from moldau.errors import ERROR_CODES, kafka_error
from moldau.wire.protocol.messages.broker_lifecycle import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from moldau.wire.protocol.messages.metadata_records import BrokerRegistrationChangeRecord, UnregisterBrokerRecord

if TYPE_CHECKING:
    from moldau.wire.protocol.messages.cluster import UnregisterBrokerRequest, UnregisterBrokerResponse

UNFENCED = -1
FENCED = 1

_STOPPING = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)
_SHUT_DOWN = BrokerHeartbeatResponse(is_caught_up=True, should_shut_down=True)


def heartbeat(
    image: MetadataImage,
    settings: BrokerSettings,
    sessions: BrokerSessions,
    request: BrokerHeartbeatRequest,
    now_ms: int,
) -> tuple[list[MetadataRecord], BrokerHeartbeatResponse]:
    """Unfences a broker that has its own registration in its metadata, then makes it the leader of partitions without
    one. A broker that wants to stop is marked, and its partitions get other leaders. When all active brokers know that,
    it is fenced, and the response lets it shut down. A broker that leads nothing is fenced at once.

    Raises BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH.
    """
    broker = _registered(image, request.broker_id, request.broker_epoch)
    sessions.heard(broker.broker_id, broker.epoch, request.current_metadata_offset, now_ms)
    changes = PartitionChanges(image, settings, broker.broker_id)
    if request.want_shut_down or broker.is_in_controlled_shutdown:
        is_at_once = request.want_fence or not (broker.is_in_controlled_shutdown or changes.is_leader)
        records, response = _shut_down(image, sessions, broker, changes, is_at_once=is_at_once)
    elif request.want_fence or (broker.is_fenced and request.current_metadata_offset < broker.epoch):
        records = [] if broker.is_fenced else fence(broker, changes)
        is_caught_up = request.current_metadata_offset >= broker.epoch
        response = BrokerHeartbeatResponse(is_caught_up=is_caught_up, is_fenced=broker.is_fenced or changes.is_complete)
    else:
        records = _serve(sessions, broker, changes)
        is_caught_up = sessions.is_settled(broker.broker_id)
        response = BrokerHeartbeatResponse(is_caught_up=is_caught_up, is_fenced=False)
    return records + _directory_changes(image, settings, broker, request), response


def fence(broker: BrokerImage, changes: PartitionChanges) -> list[MetadataRecord]:
    """Moves the partitions away from the broker, then fences it. `changes.is_complete`: all is done."""
    records = changes.leave()
    if changes.is_complete:
        records.append(BrokerRegistrationChangeRecord(broker.broker_id, broker.epoch, fenced=FENCED))
    return records


def _serve(sessions: BrokerSessions, broker: BrokerImage, changes: PartitionChanges) -> list[MetadataRecord]:
    records: list[MetadataRecord] = []
    if broker.is_fenced:
        records.append(BrokerRegistrationChangeRecord(broker.broker_id, broker.epoch, fenced=UNFENCED))
    if broker.is_fenced or not sessions.is_settled(broker.broker_id):
        records += changes.come_back()
        sessions.settled(broker.broker_id, is_settled=changes.is_complete)
    return records


def _shut_down(
    image: MetadataImage,
    sessions: BrokerSessions,
    broker: BrokerImage,
    changes: PartitionChanges,
    *,
    is_at_once: bool,
) -> tuple[list[MetadataRecord], BrokerHeartbeatResponse]:
    if broker.is_fenced:
        sessions.end(broker.broker_id)
        return [], _SHUT_DOWN
    records = changes.leave()
    if not (is_at_once or broker.is_in_controlled_shutdown):
        records.insert(0, BrokerRegistrationChangeRecord(broker.broker_id, broker.epoch, in_controlled_shutdown=1))
    if records and not is_at_once:
        sessions.leaves_at(broker.broker_id, image.end_offset + len(records) - 1)
        return records, _STOPPING
    if not changes.is_complete or not (is_at_once or sessions.has_left(image, broker.broker_id)):
        return records, _STOPPING
    sessions.end(broker.broker_id)
    records.append(BrokerRegistrationChangeRecord(broker.broker_id, broker.epoch, fenced=FENCED))
    return records, _SHUT_DOWN


def _directory_changes(
    image: MetadataImage, settings: BrokerSettings, broker: BrokerImage, request: BrokerHeartbeatRequest
) -> list[MetadataRecord]:
    """Removes replicas in failed log directories from the ISRs. Records the cordoned directories; if none is left,
    records that once (KIP-858, 1066)."""
    records: list[MetadataRecord] = []
    failed = tuple(directory for directory in request.offline_log_dirs if directory in broker.log_directories)
    if failed:
        changes = PartitionChanges(image, settings, broker.broker_id)
        records += changes.leave(failed)
        if changes.is_complete:
            left = tuple(directory for directory in broker.log_directories if directory not in failed)
            records.append(BrokerRegistrationChangeRecord(broker.broker_id, broker.epoch, log_dirs=left))
    cordoned, known = request.cordoned_log_dirs, broker.cordoned_log_directories
    is_new = cordoned is not None and (known is None or sorted(cordoned) != sorted(known))
    if is_new and RecordVersions.for_levels(image.features).can_cordon:
        records.append(BrokerRegistrationChangeRecord(broker.broker_id, broker.epoch, cordoned_log_dirs=cordoned))
    return records


def unregister_broker(
    image: MetadataImage, settings: BrokerSettings, request: UnregisterBrokerRequest
) -> tuple[list[MetadataRecord], UnregisterBrokerResponse]:
    """Removes the registration of a stopped broker. An active broker is rejected. (Apache Kafka accepts it, and a
    cluster whose only broker is unregistered serves no client until that broker restarts.) If one batch cannot hold all
    changes, the response is REQUEST_TIMED_OUT, and the next request continues.

    Raises BROKER_ID_NOT_REGISTERED, INVALID_REQUEST.
    """
    from moldau.wire.protocol.messages.cluster import UnregisterBrokerResponse

    broker = image.brokers.get(request.broker_id)
    if broker is None:
        raise kafka_error("BROKER_ID_NOT_REGISTERED", f"Broker ID {request.broker_id} is not currently registered")
    if broker.is_active:
        raise kafka_error(
            "INVALID_REQUEST", f"Broker {request.broker_id} is serving: stop it before it is unregistered."
        )
    changes = PartitionChanges(image, settings, request.broker_id)
    records = changes.forget()
    if not changes.is_complete:
        return records, UnregisterBrokerResponse(
            error_code=ERROR_CODES["REQUEST_TIMED_OUT"],
            error_message=f"Broker {request.broker_id} has too many partitions for one batch: ask again for the rest.",
        )
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
