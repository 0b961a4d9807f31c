"""Notes how far a follower has the partitions that it fetches."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from moldau.errors import KafkaError
from moldau.shell.broker.handlers.fetch_targets import readable_partition
from moldau.shell.broker.handlers.parked_fetch import ParkedFetch
from moldau.shell.broker.replicas.follower_watch import FollowerWatch
from moldau.types import Pausing
from moldau.wire.protocol.fast_fetch import FetchEntry

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker


def note_follower(broker: Broker, fetch: ParkedFetch, named: list[FetchEntry]) -> Pausing[None]:
    """Notes that the follower has all records below the offset of each entry. Runs once for each request before the
    first look, so the answer has the resulting high watermark. Rejected entries are not noted. `named`: the entries
    of this request. In the other partitions of the session the follower has not moved. From the second request of the
    session on, the fetch looks only at partitions that may have news."""
    noted, terms = fetch.entries, fetch.terms
    replica_id, broker_epoch = terms.replica_id, terms.broker_epoch
    if replica_id == broker.node_id:
        broker.others.found_itself()
    session = None if fetch.session is None else fetch.session.session
    watch: FollowerWatch | None = None
    if session is not None:
        known = session.watch
        if isinstance(known, FollowerWatch):
            watch = known
        else:
            watch = FollowerWatch(broker.waits, session, replica_id, broker.settings.replica_lag_time_max_ms)
        follower = broker.image.brokers.get(replica_id)
        may_join = follower is not None and follower.is_active and follower.epoch == broker_epoch
        overlooked = watch.asked(broker.own_node.clock.monotonic_ms(), may_join=may_join)
        if watch is known:
            noted = list(dict.fromkeys([*named, *overlooked]))
        watch.named(noted)
        fetch.watch_by(watch)
    asking = None if watch is None else watch.asking
    for entry in noted:
        with suppress(KafkaError):
            partition = readable_partition(broker, fetch.context, entry, is_follower=True)
            if watch is not None:
                watch.follow(entry[:2], partition)
            if not partition.is_offline:
                partition.check_follower(replica_id, broker_epoch, entry[2])
                position = partition.position_of_follower(replica_id, broker_epoch, *entry[3:6], asking)
                if position is not None:
                    broker.replication.step(partition, position)
        yield
