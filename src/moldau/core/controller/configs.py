"""Settings as the controller sees them: those of a topic, the cluster's dynamic defaults, the node's file.

config_alterations.py changes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from moldau.core.config.broker_alteration import SettingLayers, effective_broker_settings
from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.metadata.features import ELIGIBLE_LEADER_REPLICAS
from moldau.core.metadata.image import ConfigResource, MetadataImage, ResourceType
from moldau.wire.protocol.messages.metadata_records import ClearElrRecord, ConfigRecord

MIN_INSYNC_REPLICAS = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"


def topic_config_records(topic: str, configs: Mapping[str, str]) -> list[ConfigRecord]:
    """A record for each setting of a topic, in the given order."""
    return [ConfigRecord(ResourceType.TOPIC, topic, name, value) for name, value in configs.items()]


def min_insync_replicas(image: MetadataImage, topic: str, settings: BrokerSettings) -> int:
    """The value for a topic: its own, else the cluster's (KIP-966), else the node's.

    A malformed text counts as not set. Moldau does not write one.
    """
    return _minimum((image.topic_configs(topic), image.cluster_defaults()), settings)


def clearing_eligible_leaders(changed: Iterable[ConfigRecord]) -> list[ClearElrRecord]:
    """The records after a change of `min.insync.replicas` with ELR: replicas that were eligible may lack records that
    are committed under the new value (KIP-966). As in Kafka, a broker setting applies to every topic."""
    return [
        ClearElrRecord(record.resource_name if record.resource_type == ResourceType.TOPIC else "")
        for record in changed
        if record.name == MIN_INSYNC_REPLICAS
    ]


def min_insync_replicas_of_leader(image: MetadataImage, topic: str, view: BrokerSettings) -> int:
    """The value for a leader: the topic's own, else the one in force on the leader's broker.

    `view` contains the cluster's value below the broker's own. With ELR the cluster's value applies to all brokers.
    """
    if image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0:
        return min_insync_replicas(image, topic, view)
    return _minimum((image.topic_configs(topic),), view)


def _minimum(layers: Iterable[Mapping[str, str]], settings: BrokerSettings) -> int:
    for values in layers:
        text = values.get(MIN_INSYNC_REPLICAS, "").strip()
        if text.isascii() and text.isdigit():
            return int(text[:10])
    return settings.min_insync_replicas


def allows_unclean_election(image: MetadataImage, topic: str, settings: BrokerSettings) -> bool:
    """Whether a replica that may lack records may lead: the topic's value, else the cluster's, else the node's."""
    for values in (image.topic_configs(topic), image.cluster_defaults()):
        text = values.get(UNCLEAN_ELECTION)
        if text is not None:
            return text.strip().lower() == "true"
    return settings.unclean_leader_election_enable


def setting_layers(image: MetadataImage, static: BrokerSettings) -> SettingLayers:
    """The settings of the node with `static`, by place. As in Kafka, `node.id` is also `broker.id`."""
    own = image.configs.get(ConfigResource(ResourceType.BROKER, str(static.node_id)), {})
    texts = static.texts
    if "node.id" in texts and "broker.id" not in texts:
        texts = {**texts, "broker.id": texts["node.id"]}
    return SettingLayers(own, image.cluster_defaults(), texts)


def view_in_force(image: MetadataImage, static: BrokerSettings) -> tuple[BrokerSettings, tuple[str, ...]]:
    """The settings in force on a node that started with `static`, and a sentence for each ignored one."""
    layers = setting_layers(image, static)
    return effective_broker_settings(static, layers.cluster, layers.broker)
