"""UpdateFeatures: changes the finalized levels of features, all of a request or none (KIP-584, 1022)."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.controller.configs import MIN_INSYNC_REPLICAS
from moldau.core.metadata.features import (
    ELIGIBLE_LEADER_REPLICAS,
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_4_0,
    SUPPORTED_FEATURES,
)
from moldau.core.metadata.fold import MetadataRecord
from moldau.core.metadata.image import CLUSTER_DEFAULTS, MetadataImage, ResourceType
from moldau.errors import KafkaError, kafka_error
from moldau.types import Pausing
from moldau.wire.protocol.messages.cluster import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from moldau.wire.protocol.messages.metadata_records import ClearElrRecord, ConfigRecord, FeatureLevelRecord

RECORDS_CHANGED_AT = (30, 32, 33)
"""The levels since 4.0 that changed records: cordoned log directories (KIP-1066), ACLs for ranges of addresses,
UnregisterControllerRecord."""

_RANGES = {feature.name: feature for feature in SUPPORTED_FEATURES}


class UpgradeType(enum.IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(
    image: MetadataImage, settings: BrokerSettings, kraft_version: int, request: UpdateFeaturesRequest
) -> Pausing[tuple[list[MetadataRecord], UpdateFeaturesResponse]]:
    """The records of the new levels (none if only validating), and the response. As in Kafka, the last update of a
    repeated feature counts. `kraft_version` is in control records, not in the image."""
    levels = {**image.features, KRAFT_VERSION: kraft_version}
    updates: dict[str, FeatureUpdateKey] = {}
    for update in request.feature_updates:
        updates[update.feature] = update
        yield
    records: list[MetadataRecord] = []
    for update in updates.values():
        fault = _fault(levels, settings.node_id, update) or _fault_of_others(image, settings.node_id, update)
        if fault is not None:
            message = f"Invalid update version {update.max_version_level} for feature {update.feature}. {fault}"
            if fault.startswith("Unsupported"):
                message = fault
            message = f"The update failed for all features since the following feature had an error: {message}"
            return [], (yield from refused(request, kafka_error("INVALID_UPDATE_VERSION", message)))
        if update.feature != KRAFT_VERSION:
            records.append(FeatureLevelRecord(update.feature, update.max_version_level))
    records += _minimum_for_all(image, settings, updates)
    results = tuple(UpdatableFeatureResult(name, 0, "NONE") for name in updates)
    return [] if request.validate_only else records, UpdateFeaturesResponse(error_message=None, results=results)


def refused(_: UpdateFeaturesRequest, error: KafkaError) -> Pausing[UpdateFeaturesResponse]:
    """The response with an error for the whole request."""
    yield
    return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)


def _fault(levels: Mapping[str, int], node_id: int, update: FeatureUpdateKey) -> str | None:
    """The reason why the level is impossible, in Kafka's words and order; None if it is possible."""
    name, level = update.feature, update.max_version_level
    if update.upgrade_type not in (UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    supported = _RANGES.get(name)
    if supported is None:
        return (
            f"Feature {name} not found." if level == 0 else f"Local controller {node_id} does not support this feature."
        )
    if not supported.min_level <= level <= supported.max_level:
        return f"Local controller {node_id} only supports versions {supported.min_level}-{supported.max_level}"
    current = levels.get(name, 0)
    if level < current and update.upgrade_type == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if level > current and update.upgrade_type != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    if name == KRAFT_VERSION and level != current:
        if level < current:
            return "Can't downgrade the version of this feature."
        return "The voters of this cluster are not served as records of the log yet."
    if name == METADATA_VERSION and level < current:
        return _metadata_downgrade_fault(current, level, update.upgrade_type)
    return None


def _fault_of_others(image: MetadataImage, node_id: int, update: FeatureUpdateKey) -> str | None:
    """The reason why another node does not support the level, and would stop at its next start. Also for downgrades."""
    nodes = [("Broker", broker.broker_id, broker.features) for broker in image.brokers.values()]
    controllers = image.controllers.values()
    nodes += [("Controller", one.controller_id, one.features) for one in controllers if one.controller_id != node_id]
    for kind, other_id, features in sorted(nodes):
        supported = {name: (lowest, highest) for name, lowest, highest in features}
        lowest, highest = supported.get(update.feature, (0, 0))
        if not lowest <= update.max_version_level <= highest:
            if update.feature not in supported:
                return f"{kind} {other_id} does not support this feature."
            return f"{kind} {other_id} only supports versions {lowest}-{highest}"
    return None


def _metadata_downgrade_fault(current: int, level: int, upgrade_type: int) -> str | None:
    """None if no level between the two changed a record. An older version would lose the content of changed records."""
    prefix = f"Unsupported metadata.version downgrade from {current} to {level}. "
    if level >= METADATA_VERSION_4_0 and not any(level < changed <= current for changed in RECORDS_CHANGED_AT):
        return None
    if upgrade_type == UpgradeType.SAFE_DOWNGRADE:
        return prefix + "Refusing to perform the requested downgrade because it might delete metadata information."
    return prefix + "Unsafe metadata downgrade is not supported in this version."


def _minimum_for_all(
    image: MetadataImage, settings: BrokerSettings, updates: Mapping[str, FeatureUpdateKey]
) -> list[MetadataRecord]:
    """With ELR the minimum of in-sync replicas is one value for the whole cluster (KIP-966): the existing one, else the
    node's own. Values of single brokers are removed. Eligible replicas are cleared: the minimum may have changed while
    ELR was off, so they may lack committed records."""
    update = updates.get(ELIGIBLE_LEADER_REPLICAS)
    if update is None or update.max_version_level == 0:
        return []
    records: list[MetadataRecord] = []
    if MIN_INSYNC_REPLICAS not in image.cluster_defaults():
        value = str(settings.min_insync_replicas)
        records.append(ConfigRecord(CLUSTER_DEFAULTS.resource_type, CLUSTER_DEFAULTS.name, MIN_INSYNC_REPLICAS, value))
    for resource, values in sorted(image.configs.items()):
        is_one_broker = resource.resource_type == ResourceType.BROKER and resource.name
        if is_one_broker and MIN_INSYNC_REPLICAS in values:
            records.append(ConfigRecord(resource.resource_type, resource.name, MIN_INSYNC_REPLICAS, None))
    if records or image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) == 0:
        records.append(ClearElrRecord())
    return records
