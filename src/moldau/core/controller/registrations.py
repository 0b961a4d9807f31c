"""The registration of brokers and controllers (KIP-631, 858, 919, 966).

A broker that registers while it is active has crashed, so it is fenced first. Without a clean shutdown its replicas may
be incomplete, so it is no eligible leader. If the old session is still alive, another node uses the same id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.controller.brokers import fence
from moldau.core.controller.partition_changes import PartitionChanges
from moldau.core.controller.sessions import NO_OFFSET, BrokerSessions
from moldau.core.metadata.features import METADATA_VERSION, RecordVersions, can_unregister_controllers
from moldau.core.metadata.fold import MetadataRecord
from moldau.core.metadata.image import BrokerImage, MetadataImage
from moldau.errors import ERROR_CODES, kafka_error
from moldau.wire.protocol.messages.broker_lifecycle import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from moldau.wire.protocol.messages.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterControllerRecord,
)

if TYPE_CHECKING:
    from moldau.wire.protocol.messages.cluster import UnregisterControllerRequest, UnregisterControllerResponse

RESERVED_DIRECTORIES = 100
"""Directory ids below this have special meanings, such as "unassigned" and "lost" (KIP-858)."""

_AGAIN = BrokerRegistrationResponse(error_code=ERROR_CODES["DUPLICATE_BROKER_REGISTRATION"])


def register_controller(
    request: ControllerRegistrationRequest,
) -> tuple[list[MetadataRecord], ControllerRegistrationResponse]:
    """Registers a controller. Each does this at its start."""
    points = tuple(
        ControllerEndpoint(point.name, point.host, point.port, point.security_protocol) for point in request.listeners
    )
    features = tuple(
        ControllerFeature(feature.name, feature.min_supported_version, feature.max_supported_version)
        for feature in request.features
    )
    record = RegisterControllerRecord(
        request.controller_id, request.incarnation_id, request.zk_migration_ready, points, features
    )
    return [record], ControllerRegistrationResponse(error_message=None)


def unregister_controller(
    image: MetadataImage, settings: BrokerSettings, request: UnregisterControllerRequest
) -> tuple[list[MetadataRecord], UnregisterControllerResponse]:
    """Removes the registration of a controller that will not return. RemoveRaftVoter removes its vote.

    Raises, in the order and words of Kafka: INVALID_REQUEST (it is the active one), UNSUPPORTED_VERSION,
    CONTROLLER_ID_NOT_REGISTERED.
    """
    from moldau.wire.protocol.messages.cluster import UnregisterControllerResponse

    controller_id = request.controller_id
    if controller_id == settings.node_id:
        raise kafka_error("INVALID_REQUEST", "Controller cannot unregister itself while it is active.")
    if not can_unregister_controllers(image.features):
        raise kafka_error(
            "UNSUPPORTED_VERSION", "The current MetadataVersion is too old to support controller unregistration."
        )
    if controller_id not in image.controllers:
        raise kafka_error("CONTROLLER_ID_NOT_REGISTERED", f"Controller ID {controller_id} is not currently registered.")
    return [UnregisterControllerRecord(controller_id)], UnregisterControllerResponse(error_message=None)


def register_broker(
    image: MetadataImage,
    settings: BrokerSettings,
    sessions: BrokerSessions,
    request: BrokerRegistrationRequest,
    now_ms: int,
) -> tuple[list[MetadataRecord], BrokerRegistrationResponse]:
    """Fences an earlier life of the broker, removes the eligibility after an unclean stop, and registers it.

    Until the earlier life is fenced, the response is DUPLICATE_BROKER_REGISTRATION, and the broker tries again. A
    second registration in the same life keeps epoch and fence.

    Raises, in Kafka's order: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION (another active node has this id),
    INVALID_REGISTRATION, UNSUPPORTED_VERSION.
    """
    old = image.brokers.get(request.broker_id)
    _check(image, sessions, request, old, now_ms)
    if old is not None and old.incarnation_id == request.incarnation_id and sessions.is_alive(old, now_ms):
        sessions.heard(old.broker_id, old.epoch, NO_OFFSET, now_ms)
        return [_registration(image, request, old.epoch, old)], BrokerRegistrationResponse(broker_epoch=old.epoch)
    # an unknown broker may have been unregistered, so its last stop counts as unclean
    is_clean = old is not None and request.previous_broker_epoch == old.epoch
    changes = PartitionChanges(image, settings, request.broker_id)
    if old is not None and not old.is_fenced:
        return fence(old, changes), _AGAIN
    records = [] if is_clean else changes.lose_eligibility()
    if not changes.is_complete:
        return records, _AGAIN
    epoch = image.end_offset
    records.append(_registration(image, request, epoch, None))
    sessions.heard(request.broker_id, epoch, NO_OFFSET, now_ms)
    return records, BrokerRegistrationResponse(broker_epoch=epoch)


def _check(
    image: MetadataImage,
    sessions: BrokerSessions,
    request: BrokerRegistrationRequest,
    old: BrokerImage | None,
    now_ms: int,
) -> None:
    if request.cluster_id != image.cluster_id:
        raise kafka_error(
            "INCONSISTENT_CLUSTER_ID",
            f"Expected cluster ID {image.cluster_id}, but got cluster ID {request.cluster_id}",
        )
    if old is not None and old.incarnation_id != request.incarnation_id and sessions.is_alive(old, now_ms):
        raise kafka_error(
            "DUPLICATE_BROKER_REGISTRATION",
            "Another broker is registered with that broker id. If the broker was recently restarted this should "
            "self-resolve once the heartbeat manager expires the broker's session.",
        )
    _check_directories(image, request)
    _check_features(image, request)


def _check_directories(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    fault = ""
    if not request.log_dirs:
        fault = "No directories specified in request"
    elif any(int.from_bytes(directory) < RESERVED_DIRECTORIES for directory in request.log_dirs):
        fault = "Reserved directory ID in request"
    elif len(dict.fromkeys(request.log_dirs)) < len(request.log_dirs):
        fault = "Duplicate directory ID in request"
    if fault:
        raise kafka_error("INVALID_REGISTRATION", fault)
    for broker in image.brokers.values():
        taken = next((directory for directory in request.log_dirs if directory in broker.log_directories), None)
        if taken is not None and broker.broker_id != request.broker_id:
            raise kafka_error(
                "INVALID_REGISTRATION",
                f"Broker {broker.broker_id} is already registered with directory {taken.hex()}",
            )


def _check_features(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    """The broker must support every finalized level. It supports only level 0 of a feature that it does not name."""
    ranges = {feature.name: feature for feature in request.features}
    if METADATA_VERSION not in ranges:
        raise kafka_error("INVALID_REGISTRATION", "Request features do not contain 'metadata.version'")
    for name, level in image.features.items():
        feature = ranges.get(name)
        lowest, highest = (0, 0) if feature is None else (feature.min_supported_version, feature.max_supported_version)
        if not lowest <= level <= highest:
            raise kafka_error(
                "UNSUPPORTED_VERSION",
                f"Unable to register because the broker does not support finalized version {level} of {name}. The "
                f"broker wants a version between {lowest} and {highest}, inclusive.",
            )


def _registration(
    image: MetadataImage, request: BrokerRegistrationRequest, epoch: int, same_life: BrokerImage | None
) -> RegisterBrokerRecord:
    versions = RecordVersions.for_levels(image.features)
    points = tuple(
        BrokerEndpoint(point.name, point.host, point.port, point.security_protocol) for point in request.listeners
    )
    features = tuple(
        BrokerFeature(feature.name, feature.min_supported_version, feature.max_supported_version)
        for feature in request.features
    )
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=points,
        features=features,
        rack=request.rack,
        fenced=same_life is None or same_life.is_fenced,
        in_controlled_shutdown=same_life is not None and same_life.is_in_controlled_shutdown,
        log_dirs=request.log_dirs if versions.register_broker >= 3 else (),
    )
