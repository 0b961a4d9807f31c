"""The periodic work of the active controller: fencing, preferred leaders, unclean elections, token expiry.

Each is a timer that sets itself again. A single node only removes expired delegation tokens.
"""

from __future__ import annotations

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.controller.brokers import fence
from moldau.core.controller.partition_changes import (
    MAX_CHANGES_PER_STEP,
    PartitionChanges,
    change_partition,
    may_lead,
    topic_terms,
)
from moldau.core.controller.requests import (
    BalanceLeaders,
    ControllerRequest,
    ElectUncleanly,
    FenceStaleBroker,
    Round,
    SweepTokens,
)
from moldau.core.controller.sessions import BrokerSessions
from moldau.core.coordination.machine import Now, Timer
from moldau.core.metadata.fold import MetadataRecord
from moldau.core.metadata.image import NO_LEADER, MetadataImage
from moldau.types import Pausing
from moldau.wire.protocol.messages.metadata_records import PartitionChangeRecord

MAX_BALANCED_PER_ROUND = 1_000
"""The most leaders that one decision moves; the rest follows in the next one, at once. As in Kafka."""


def first_rounds(
    image: MetadataImage, settings: BrokerSettings, sessions: BrokerSessions, now_ms: int
) -> tuple[Timer[ControllerRequest], ...]:
    """All rounds, with the time of the first one."""
    timers: list[Timer[ControllerRequest]] = [
        look_for_stale(image, sessions, now_ms),
        _timer(ElectUncleanly(), now_ms + settings.unclean_leader_election_interval_ms),
    ]
    if settings.auto_leader_rebalance_enable:
        timers.append(_timer(BalanceLeaders(), now_ms + settings.leader_imbalance_check_interval_seconds * 1_000))
    return tuple(timers)


def play_round(
    image: MetadataImage, settings: BrokerSettings, sessions: BrokerSessions, round_: Round, now: Now
) -> Pausing[tuple[list[MetadataRecord], Timer[ControllerRequest]]]:
    """The records of a round, and the time of the next one."""
    now_ms = now.steady_ms
    match round_:
        case SweepTokens():
            from moldau.core.controller.delegation_tokens import MAX_REMOVED, sweep_tokens

            records = yield from sweep_tokens(image, now.wall_ms)
            interval_ms, most = settings.delegation_token_expiry_check_interval_ms, MAX_REMOVED
        case FenceStaleBroker():
            records = _fence_stale(image, settings, sessions, now_ms)
            return records, look_for_stale(image, sessions, now_ms)
        case BalanceLeaders():
            records = yield from _balance(image)
            interval_ms, most = settings.leader_imbalance_check_interval_seconds * 1_000, MAX_BALANCED_PER_ROUND
        case ElectUncleanly():
            records = yield from _elect_uncleanly(image, settings)
            interval_ms, most = settings.unclean_leader_election_interval_ms, MAX_CHANGES_PER_STEP
    return records, _timer(round_, now_ms + (0 if len(records) == most else interval_ms))


def sweep_later(settings: BrokerSettings, now_ms: int) -> Timer[ControllerRequest]:
    """When expired delegation tokens are removed first."""
    return _timer(SweepTokens(), now_ms + settings.delegation_token_expiry_check_interval_ms)


def look_for_stale(image: MetadataImage, sessions: BrokerSessions, now_ms: int) -> Timer[ControllerRequest]:
    """Replaces the timer of the next session check, because the sessions have changed."""
    return _timer(FenceStaleBroker(), sessions.next_end_ms(image, now_ms))


def _timer(round_: Round, deadline_ms: int) -> Timer[ControllerRequest]:
    return Timer(type(round_).__name__, deadline_ms, round_)


def _fence_stale(
    image: MetadataImage, settings: BrokerSettings, sessions: BrokerSessions, now_ms: int
) -> list[MetadataRecord]:
    """Fences one broker, so that a decision is one batch. The next one is due at once."""
    stale = sessions.stale(image, now_ms)
    return [] if stale is None else fence(stale, PartitionChanges(image, settings, stale.broker_id))


def _balance(image: MetadataImage) -> Pausing[list[MetadataRecord]]:
    records: list[MetadataRecord] = []
    for topic in image.topics_by_id.values():
        for index, partition in topic.partitions.items():
            yield
            preferred = partition.replicas[0]
            is_led = partition.leader in (preferred, NO_LEADER)
            if is_led or preferred not in partition.isr or not may_lead(image, partition, preferred):
                continue
            records.append(PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=preferred))
            if len(records) == MAX_BALANCED_PER_ROUND:
                return records
    return records


def _elect_uncleanly(image: MetadataImage, settings: BrokerSettings) -> Pausing[list[MetadataRecord]]:
    records: list[MetadataRecord] = []
    for topic in image.topics_by_id.values():
        terms = topic_terms(image, settings, topic)
        for index, partition in topic.partitions.items():
            yield
            if partition.leader != NO_LEADER or not terms.rules.allows_unclean:
                continue
            record = change_partition(terms, index, partition.isr)
            if record is not None:
                records.append(record)
            if len(records) == MAX_CHANGES_PER_STEP:
                return records
    return records
