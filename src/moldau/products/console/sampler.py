"""Asks the cluster every few seconds while a page is open, and keeps the samples of charts.

One snapshot serves all viewers. After IDLE_S without a viewer it stops asking, and the next viewer starts new charts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Iterable

import msgspec

from moldau.errors import MoldauError
from moldau.products.console.cluster import (
    Cluster,
    ClusterError,
    GroupFacts,
    OpenTransactions,
    Overview,
    TopicFacts,
    total,
)
from moldau.products.console.core.pipeline_groups import choose_groups
from moldau.products.console.pipelines import is_pipeline
from moldau.products.service.look.history import Growth, History, Series

INTERVAL_S = 2.0
IDLE_S = 30.0
MAX_SAMPLED_TOPICS = 500
MAX_SAMPLED_GROUPS = 50
GROUPS_EVERY = 2
"""Groups are requested at every second sample: each group takes two requests."""


class Counts(msgspec.Struct, frozen=True):
    topics: int
    partitions: int
    records: int | None


def counts_of(topics: Iterable[TopicFacts]) -> Counts:
    chosen = list(topics)
    records = total(topic.records for topic in chosen) if chosen else 0
    return Counts(len(chosen), sum(len(topic.partitions) for topic in chosen), records)


class Snapshot(msgspec.Struct, frozen=True):
    """`error`: why the cluster could not be asked; the other fields are then from the last success."""

    overview: Overview
    topics: tuple[TopicFacts, ...]
    """All topics, with offsets and sizes for the first MAX_SAMPLED_TOPICS."""
    groups: tuple[GroupFacts, ...]
    transactions: OpenTransactions
    taken_s: float
    error: str | None = None
    silent: tuple[str, ...] = ()
    """Brokers that do not respond, as `broker ID at HOST:PORT`."""

    @property
    def own(self) -> Counts:
        """Topics of users."""
        return counts_of(topic for topic in self.topics if not topic.is_internal)

    @property
    def internal(self) -> Counts:
        """Internal topics."""
        return counts_of(topic for topic in self.topics if topic.is_internal)

    @property
    def size_bytes(self) -> int | None:
        return total(topic.size_bytes for topic in self.topics) if self.topics else 0

    @property
    def lag(self) -> int | None:
        return total(group.lag for group in self.groups) if self.groups else 0


def silent_brokers(overview: Overview, addresses: Iterable[str]) -> tuple[str, ...]:
    """The brokers at `addresses`, by id and address. Omits an address that no broker of the cluster has any more."""
    silent = frozenset(addresses)
    return tuple(f"broker {each.broker_id} at {each.address}" for each in overview.brokers if each.address in silent)


def topic_series(group_id: str, topic: str) -> str:
    """The name of the series of a group's committed offsets on one topic. A topic name contains no slash."""
    return f"read:{topic}/{group_id}"


NOTHING = Snapshot(Overview("", (), ()), (), (), OpenTransactions(), 0.0, "not asked yet")


class Sampler:
    """A thread that runs while a page is open."""

    def __init__(self, cluster: Cluster) -> None:
        self._topic_history = History()
        self._group_history = History()
        self._produced, self._read = Growth(), Growth()
        self._cluster = cluster
        self._snapshot = NOTHING
        self._version = 0
        self._last_wanted_s = 0.0
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def snapshot(self) -> Snapshot:
        """The newest snapshot; the first caller waits for the first one."""
        with self._condition:
            self._wanted()
            self._condition.wait_for(lambda: self._version > 0 or self._is_closed, timeout=15)
            return self._snapshot

    def series(self, name: str) -> Series:
        """`in`, `in:<topic>`, `size`; `out`, `out:<group>`, `lag`, `lag:<group>`, and `topic_series`."""
        history = self._topic_history if name.startswith("in") or name == "size" else self._group_history
        return history.get(name)

    def newer_than(self, version: int, timeout_s: float) -> int:
        """Waits for a snapshot other than `version`; returns its version, or `version` after `timeout_s`."""
        with self._condition:
            self._wanted()
            self._condition.wait_for(lambda: self._version != version or self._is_closed, timeout=timeout_s)
            return self._version

    def close(self) -> None:
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()

    def _wanted(self) -> None:
        self._last_wanted_s = time.monotonic()
        if self._thread is None and not self._is_closed:
            self._version = 0
            self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        sample = 0
        groups: tuple[GroupFacts, ...] = ()
        transactions = OpenTransactions()
        while True:
            started_s = time.monotonic()
            try:
                overview = self._cluster.overview()
                shown = self._cluster.with_offsets(overview.topics[:MAX_SAMPLED_TOPICS])
                topics = (*shown, *overview.topics[MAX_SAMPLED_TOPICS:])
                has_groups = sample % GROUPS_EVERY == 0
                if has_groups:
                    groups = self._groups()
                    transactions = self._cluster.open_transactions()
                silent = silent_brokers(overview, self._cluster.silent())
                snapshot = Snapshot(overview, topics, groups, transactions, time.monotonic(), silent=silent)
                self._remember_topics(snapshot)
                if has_groups:
                    self._remember_groups(snapshot)
            except MoldauError as error:
                snapshot = msgspec.structs.replace(self._snapshot, error=str(error))
            except Exception as error:
                # a bug of the console: the page shows it, and the next sample may succeed
                snapshot = msgspec.structs.replace(self._snapshot, error=f"{type(error).__name__}: {error}")
            sample += 1
            with self._condition:
                self._snapshot = snapshot
                self._version += 1
                self._condition.notify_all()
                elapsed_s = time.monotonic() - started_s
                self._condition.wait_for(lambda: self._is_closed, timeout=max(0.5, INTERVAL_S - elapsed_s))
                if self._is_closed or time.monotonic() - self._last_wanted_s > IDLE_S:
                    self._thread = None
                    self._topic_history, self._group_history = History(), History()
                    self._produced, self._read = Growth(), Growth()
                    return

    def _groups(self) -> tuple[GroupFacts, ...]:
        listed = self._cluster.groups()
        chosen = choose_groups([group.group_id for group in listed], MAX_SAMPLED_GROUPS)
        return tuple(self._group(group) if group.group_id in chosen else group for group in listed)

    def _group(self, listed: GroupFacts) -> GroupFacts:
        """The group, without members and lag if its coordinator does not respond: the other groups are still shown."""
        try:
            return self._cluster.group(listed.group_id)
        except ClusterError:
            return listed

    def _remember_topics(self, snapshot: Snapshot) -> None:
        parts: dict[str, dict[Hashable, float]] = {"in": {}}
        for topic in snapshot.topics:
            ends: dict[Hashable, float] = {
                (topic.name, each.index): each.end for each in topic.partitions if each.end is not None
            }
            if topic.end_sum is not None:
                parts[f"in:{topic.name}"] = ends
            if not topic.is_internal:
                parts["in"] |= ends
        values: dict[str, float | None] = {**self._produced.add(parts), "size": snapshot.size_bytes}
        self._topic_history.add(snapshot.taken_s, values)

    def _remember_groups(self, snapshot: Snapshot) -> None:
        parts: dict[str, dict[Hashable, float]] = {"out": {}}
        lags: dict[str, float | None] = {}
        for group in snapshot.groups:
            if group.rows:
                committed: dict[Hashable, float] = {
                    (group.group_id, row.topic, row.partition): row.committed
                    for row in group.rows
                    if row.committed is not None
                }
                parts[f"out:{group.group_id}"] = committed
                parts["out"] |= committed
                lags[f"lag:{group.group_id}"] = group.lag if group.is_lag_known else None
        are_known = all(group.is_lag_known for group in snapshot.groups)
        lags["lag"] = (snapshot.lag or 0) if are_known else None
        # last, because the series at the end are dropped if they are too many
        for group in snapshot.groups:
            if is_pipeline(group):
                for row in group.rows:
                    of_topic = parts.setdefault(topic_series(group.group_id, row.topic), {})
                    if row.committed is not None:
                        of_topic[row.partition] = row.committed
        self._group_history.add(snapshot.taken_s, {**lags, **self._read.add(parts)})
