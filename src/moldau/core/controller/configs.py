"""Settings as the controller sees them: a topic's own, the cluster's dynamic defaults, the node's file.

How they are altered: config_alterations.py.
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
    """One record per setting of a topic, in the order given."""
    return [ConfigRecord(ResourceType.TOPIC, topic, name, value) for name, value in configs.items()]


def min_insync_replicas(image: MetadataImage, topic: str, settings: BrokerSettings) -> int:
    """What the controller takes for a topic: its own value, else the cluster's (KIP-966), else the node's.

    A text that is no number was not written by us; it counts as not set.
    """
    return _minimum((image.topic_configs(topic), image.cluster_defaults()), settings)


def clearing_eligible_leaders(changed: Iterable[ConfigRecord]) -> list[ClearElrRecord]:
    """What follows a changed minimum of in-sync replicas where ELR is on: the replicas that were eligible under the old
    one may lack what is committed under the new one (KIP-966). As in Kafka, a broker's setting reaches every topic."""
    return [
        ClearElrRecord(record.resource_name if record.resource_type == ResourceType.TOPIC else "")
        for record in changed
        if record.name == MIN_INSYNC_REPLICAS
    ]


def min_insync_replicas_of_leader(image: MetadataImage, topic: str, view: BrokerSettings) -> int:
    """What a leader asks for: the topic's own value, else what is in force on the leader's broker.

    `view` has the cluster's value beneath the broker's own already. With ELR the cluster's value holds for all brokers.
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
    """Whether a replica that may lack records may lead the topic's partitions: its own value, else the cluster's, else
    the node's."""
    for values in (image.topic_configs(topic), image.cluster_defaults()):
        text = values.get(UNCLEAN_ELECTION)
        if text is not None:
            return text.strip().lower() == "true"
    return settings.unclean_leader_election_enable


def setting_layers(image: MetadataImage, static: BrokerSettings) -> SettingLayers:
    """Where the settings of the node with `static` stand. `node.id` is its `broker.id` too, as in Kafka."""
    own = image.configs.get(ConfigResource(ResourceType.BROKER, str(static.node_id)), {})
    texts = static.texts
    if "node.id" in texts and "broker.id" not in texts:
        texts = {**texts, "broker.id": texts["node.id"]}
    return SettingLayers(own, image.cluster_defaults(), texts)


def view_in_force(image: MetadataImage, static: BrokerSettings) -> tuple[BrokerSettings, tuple[str, ...]]:
    """The settings that a node started with `static` works by, and a sentence for each that is passed over."""
    layers = setting_layers(image, static)
    return effective_broker_settings(static, layers.cluster, layers.broker)
