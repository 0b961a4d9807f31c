"""The CreateTopics request of a broker for internal topics and for topics that Metadata creates.

The broker sends partitions, replicas and configs, as in Kafka, because a controller in another process need not know
the broker's settings.
"""

from __future__ import annotations

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.config.topic_settings import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    internal_topic_settings,
)
from moldau.wire.protocol.messages.topics import CreatableTopic, CreatableTopicConfig

_PREFIXES = {
    OFFSETS_TOPIC: "offsets.topic",
    TRANSACTION_STATE_TOPIC: "transaction.state.log",
    SHARE_STATE_TOPIC: "share.coordinator.state.topic",
}


def automatic_topic(name: str, settings: BrokerSettings, broker_count: int) -> CreatableTopic:
    """The request of a broker with `settings` when `broker_count` brokers are registered."""
    prefix = _PREFIXES.get(name)
    if prefix is None:
        return CreatableTopic(name, settings.num_partitions, settings.default_replication_factor)
    replicas = _replicas(f"{prefix}.replication.factor", settings, broker_count)
    configs = internal_topic_settings(name, settings, replicas)
    return CreatableTopic(
        name,
        num_partitions=_number(f"{prefix}.num.partitions", settings),
        replication_factor=replicas,
        configs=tuple(CreatableTopicConfig(key, value) for key, value in configs.items()),
    )


def lacking_replicas(topic: CreatableTopic, settings: BrokerSettings) -> int:
    """The replicas that an internal topic has fewer than in Kafka, if brokers may still join; else 0."""
    prefix = _PREFIXES.get(topic.name)
    if prefix is None or settings.is_whole:
        return 0
    return _number(f"{prefix}.replication.factor", settings) - topic.replication_factor


def _replicas(setting: str, settings: BrokerSettings, broker_count: int) -> int:
    """The replicas of an internal topic. Kafka's default of 3 would leave a single node without groups. Such a node
    therefore uses one replica for each registered broker, at most the default. A node whose settings name another
    controller does not."""
    factor = _number(setting, settings)
    is_chosen = setting in settings.texts or not settings.is_alone
    return factor if is_chosen else max(1, min(factor, broker_count))


def _number(setting: str, settings: BrokerSettings) -> int:
    return int(str(settings.get(setting)))
