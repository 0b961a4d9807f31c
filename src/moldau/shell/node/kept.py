"""Reports at the start which records of Apache Kafka in the directory are kept but not served.

One line for each place: the metadata log, the share groups, the groups of other kinds. The reasons are in
docs/decisions/0013-records-of-what-is-not-served.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.core.config.topic_settings import SHARE_STATE_TOPIC
from moldau.errors import KafkaError
from moldau.types import METADATA_PARTITION, TopicPartition, counted

if TYPE_CHECKING:
    from moldau.core.config.broker_settings import BrokerSettings
    from moldau.core.log.directories.directories import LogDirectories
    from moldau.core.log.recovery.cut import Cut
    from moldau.shell.broker.role import Broker
    from moldau.shell.network.event_log import EventLog
    from moldau.shell.quorum.role import QuorumRole

KEPT = "kept, not served"


def listed(counts: Mapping[str, int]) -> str:
    """`{"ACL": 3, "delegation token": 1}` as `3 ACLs, 1 delegation token`."""
    return ", ".join(counted(count, name) for name, count in counts.items())


def tell_cuts(log: EventLog, topic_partition: TopicPartition, cuts: Sequence[Cut]) -> None:
    """Reports each cut that recovery made in a log, in one line."""
    for cut in cuts:
        log.warn("recovery", f"{topic_partition}: recovery {cut.describe()}", about=cut.path)


def tell_metadata(log: EventLog, quorum: QuorumRole, settings: BrokerSettings) -> None:
    """After the metadata log is open: reports its cuts, and its records without effect here. An operator who has set an
    ACL may believe that it is in force."""
    tell_cuts(log, METADATA_PARTITION, quorum.cuts)
    for path in quorum.damaged_snapshots:
        log.warn(
            f"snapshot {path}",
            f"{path} cannot be read; the node uses an older snapshot and the log, which hold the same records",
        )
    image = quorum.image
    tokens = len(image.logins.delegation_tokens())
    if image.acls and not settings.has_authorizer:
        log.warn(
            "ACLs without an authorizer",
            f"{listed({'ACL': len(image.acls)})} in the metadata log without effect: authorizer.class.name is not set",
        )
    if tokens and settings.delegation_token_secret_key is None:
        log.warn(
            "delegation tokens without a key",
            f"{listed({'delegation token': tokens})} in the metadata log without effect: delegation.token.secret.key "
            "is not set",
        )


def tell_logs(log: EventLog, logs: LogDirectories) -> None:
    """After all logs are open: reports records of share group coordinators, and open transactions."""
    count = open_count = 0
    first = ""
    for partition_log in logs.logs():
        if partition_log.topic_partition.topic == SHARE_STATE_TOPIC:
            count += partition_log.log_end_offset - partition_log.log_start_offset
        offset = partition_log.producer_state.first_unstable_offset
        if offset >= 0:
            open_count += 1
            first = first or f"{partition_log.topic_partition} at offset {offset}"
    if count:
        log.info(f"kept {SHARE_STATE_TOPIC}", f"{KEPT}: {listed({'offset': count})} of {SHARE_STATE_TOPIC}")
    if open_count:
        log.info(
            "open transactions",
            f"a transaction is open in {listed({'partition': open_count})}, first in {first}: read_committed consumers "
            "read no further until its producer or its time-out has ended that transaction",
        )


async def tell_groups(log: EventLog, broker: Broker) -> None:
    """Loads the groups over several turns of the loop and reports those of other kinds. Requires
    `__consumer_offsets`."""
    counts: dict[str, int] = {}
    for shard in broker.coordination.groups.all_shards():
        place = shard.partition.topic_partition
        try:
            if shard.loading is not None:
                await asyncio.shield(shard.loading)
        except KafkaError as error:
            if shard.closed is None:
                log.error(f"groups of {place}", f"{place} cannot be loaded, its groups are not served: {error}")
            continue
        for kind in shard.host.state.other_kinds.values():
            counts[f"{kind} group"] = counts.get(f"{kind} group", 0) + 1
    if counts:
        log.info("kept groups", f"{KEPT}: {listed(counts)}; their committed offsets are served")
