"""The fetch of a follower: notes the follower's log end, and looks at the changed partitions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from moldau.core.beat import beat_ms
from moldau.core.config.broker_settings import RACK_AWARE
from moldau.core.replication.partition import Partition
from moldau.errors import KafkaError
from moldau.shell.broker.handlers.parked_fetch import ParkedFetch
from moldau.shell.broker.replicas.follower_watch import FollowerWatch
from moldau.types import Pausing
from moldau.wire.protocol.elsewhere import LeaderNode
from moldau.wire.protocol.fast_fetch import FetchEntry, FetchResult


class FollowerFetch(ParkedFetch):
    """See ParkedFetch. From the second request of its session on, it usually looks only at partitions that may have
    news."""

    is_follower = True
    __slots__ = ("_looks_at_all", "_watch")

    def __init__(self, *asked: Any) -> None:
        super().__init__(*asked)
        self._watch: FollowerWatch | None = None
        self._looks_at_all = True

    def note(self, named: list[FetchEntry]) -> Pausing[None]:
        """Notes that the follower has all records below the offset of each entry. Runs once for each request before the
        first look, so the answer has the resulting high watermark. Rejected entries are not noted. `named`: the entries
        of this request. In the other partitions of the session the follower has not moved."""
        broker, noted = self.broker, self.entries
        if self.replica_id == broker.node_id:
            broker.others.found_itself()
        session = None if self.session is None else self.session.session
        if session is not None:
            watch = session.watch
            self._looks_at_all = not isinstance(watch, FollowerWatch)
            if not isinstance(watch, FollowerWatch):
                watch = FollowerWatch(broker.waits, session, self.replica_id, broker.settings.replica_lag_time_max_ms)
            self._watch = watch
            follower = broker.image.brokers.get(self.replica_id)
            may_join = follower is not None and follower.is_active and follower.epoch == self.broker_epoch
            overlooked = watch.asked(broker.clock.monotonic_ms(), may_join=may_join)
            if not self._looks_at_all:
                noted = list(dict.fromkeys([*named, *overlooked]))
                watch.named(noted)
                self.entries = watch.changed()
        asking = None if self._watch is None else self._watch.asking
        for entry in noted:
            with suppress(KafkaError):
                partition = self._readable_partition(entry)
                if self._watch is not None:
                    self._watch.follow(entry[:2], partition)
                if not partition.is_offline:
                    partition.check_follower(self.replica_id, self.broker_epoch, entry[2])
                    position = partition.position_of_follower(self.replica_id, self.broker_epoch, *entry[3:6], asking)
                    if position is not None:
                        broker.replication.step(partition, position)
            yield

    @property
    def has_nothing_to_wait_for(self) -> bool:
        """As in ParkedFetch. A watched session waits for all its partitions, even if this request looks at none."""
        return self._watch is None and not self.entries

    def collect(self, **how: Any) -> list[FetchResult]:
        """As in ParkedFetch. If followers serve the consumers of their rack, a new high watermark is answered at once,
        as those consumers wait for it."""
        results = super().collect(**how)
        if self._watch is not None and self.broker.settings.replica_selector_class == RACK_AWARE:
            self.is_urgent = self.is_urgent or self._watch.is_high_watermark_news(results)
        return results

    def finish(self, results: list[FetchResult]) -> tuple[int, int, int, list[FetchResult], Sequence[LeaderNode]]:
        if self._watch is not None:
            self._watch.told(results)
        return super().finish(results)

    # -- waiting

    def _wait_ms(self, max_wait_ms: int) -> int:
        """The follower's wait, aligned with the waits of others: otherwise an idle broker would wake for each follower
        alone, twice a second."""
        now_ms = self.broker.clock.monotonic_ms()
        return beat_ms(now_ms, max_wait_ms) - now_ms

    def _register(self) -> None:
        if self._watch is None:
            super()._register()
        else:
            self._watch.park(self)

    def _unregister(self) -> None:
        if self._watch is None:
            super()._unregister()
        else:
            self._watch.leave(self)

    def _counted(self) -> int:
        """The bytes that the follower may read: it waits for nothing else."""
        return self.size

    def partition_changed(self, partition: Partition) -> None:
        """Looks again if the change brought records. The next answer has other news."""
        if self._watch is None:
            super().partition_changed(partition)
            return
        if not partition.is_deleted and self._has_all_of(partition, self._watch.asked_of(partition)):
            return
        self._look_at_changed()
        self._look_again()

    def _has_all_of(self, partition: Partition, entry: FetchEntry) -> bool:
        """Whether the follower has all records of this leader, and a look would find nothing. A look covers all
        partitions that changed since the last answer, and each partition of a new topic changes while the fetch is
        parked."""
        if self.broker.settings.replica_selector_class == RACK_AWARE:
            return False  # a new high watermark is answered at once
        if entry[2] != partition.leader_epoch or partition.is_offline or entry[3] != partition.log.log_end_offset:
            return False
        try:
            partition.check_follower(self.replica_id, self.broker_epoch, entry[2])
        except KafkaError:
            return False
        return True

    def _answer_later(self) -> None:
        self._look_at_changed()
        super()._answer_later()

    def _look_at_changed(self) -> None:
        if self._watch is not None and not self._looks_at_all:
            self.entries = self._watch.changed()
