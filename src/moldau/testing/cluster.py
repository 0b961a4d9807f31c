"""A cluster in this process. Each of its brokers has its own thread and event loop.

It does not change the host process: no event loop policy, no signal handler, no gc setting. A forked child closes its
copies of the sockets, which belong to the parent's broker.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args, overload

from moldau.client.protocol.access import BOOTSTRAP_SERVERS, CLIENT_ID, ClusterAccess
from moldau.core.config.broker_settings import no_setting, setting_hint
from moldau.errors import MoldauError
from moldau.testing.contents import Contents
from moldau.testing.member import POLL_S
from moldau.testing.members import Members, settings_of_several
from moldau.testing.runtime import START_TIMEOUT_S
from moldau.testing.security import ClusterSecurity, Security, Users
from moldau.testing.tracebacks import hides, without_inner_frames

if TYPE_CHECKING:
    from ssl import SSLContext

    from moldau.shell.node.assemble import Node
    from moldau.testing.faults import Faults
    from moldau.testing.inside import GroupView, Record
    from moldau.testing.rights import Rights
    from moldau.testing.troubles import Kind, Trouble
    from moldau.types import TopicPartition
    from moldau.wire.protocol.acls import Acl

__tracebackhide__ = hides

Isolation = Literal["read_committed", "read_uncommitted"]
DEFAULT_WAIT_S = 10.0

# Settings that differ from production. `Cluster(settings=...)` overrides them.
TEST_SETTINGS: Mapping[str, str] = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    # Production has 50; a test would only wait longer.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "4",
    # A first member need not wait for others, which a test does not have.
    "group.initial.rebalance.delay.ms": "0",
    # Expired committed offsets end within a second of the cluster's time; `advance` waits for that. Records do not
    # expire by themselves, because a test may write records of last year. `advance` applies their retention explicitly.
    "offsets.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": str(1 << 53),
    "log.retention.check.interval.ms": str(1 << 53),
    "log.cleaner.backoff.ms": "1000",
    # Time travel must not look like a client that was idle for a week.
    "connections.max.idle.ms": str(1 << 53),
}


class Cluster:
    """A Kafka cluster on 127.0.0.1, with its own ports. A process may have any number of clusters.

    `brokers`: the number of brokers, with the ids 1, 2, ... With several, each is a controller too, and acknowledged
    records survive the loss of a broker. With three or more, topics have three replicas.
    `data_dir`: the directory of the files; several brokers have a subdirectory each. None keeps everything in memory. A
    later cluster with the same number of brokers can open the directory again.
    `settings`: Kafka's broker settings by name; `TEST_SETTINGS` lists the differences from `moldau up`. Raises
    INVALID_CONFIG for an invalid value or a misspelt name, and ValueError for a setting that a cluster of several
    brokers chooses itself. Warns of settings without effect.
    `security`: the security protocol, for clients and between brokers. `users`: passwords by name, for SCRAM-SHA-512;
    with "ssl" names are enough, because each user gets a certificate. The principal of alice is `User:alice`. `acls`:
    turns on ACLs, made by `allow` and `deny`; everything else is denied. Raises ValueError for arguments that
    contradict each other. TLS needs the extra `tls`.

    Use it as a context manager (also `async with`), or call `start` and `stop`. All methods may be called from any
    thread, and take milliseconds. In a coroutine, wait with `wait_for_async`.
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        data_dir: str | os.PathLike[str] | None = None,
        settings: Mapping[str, object] | None = None,
        security: Security = "plaintext",
        users: Users | None = None,
        acls: Iterable[Rights | Acl] | None = None,
    ) -> None:
        data_path = None if data_dir is None else os.fspath(data_dir)
        given = {name: _setting_text(value) for name, value in (settings or {}).items()}
        _check_names(given)
        of_several = settings_of_several(brokers, given)
        self._security = ClusterSecurity(security, users, acls, brokers)
        self._security.check_given(given)
        texts = {**TEST_SETTINGS, **of_several, **self._security.settings(), **given}
        try:
            self._members = Members(texts, data_path, brokers, self._security)
        except MoldauError as error:
            raise without_inner_frames(error) from None
        for notice in self._members.settings.notices():
            warnings.warn(notice, stacklevel=2)
        self._life = threading.RLock()
        self._contents = Contents(self._members)
        self._is_started = False
        self._addresses = ""
        self._faults: Faults | None = None
        self._topics_made = 0
        self._owner_pid = 0

    def __repr__(self) -> str:
        return f"<Cluster {self._addresses}>" if self._is_started else "<Cluster, not started>"

    # -- life

    @property
    def bootstrap_servers(self) -> str:
        """`127.0.0.1:PORT` of each broker, separated by commas. It stays the same from `start` to `stop`, also while
        brokers are killed, and in a forked child.

        Raises MoldauError before `start` and after `stop`.
        """
        if not self._is_started:
            raise MoldauError("the cluster is not running: use it as a context manager, or call start()")
        return self._addresses

    def client_settings(self, user: str | None = None) -> dict[str, object]:
        """The settings of a confluent-kafka client that logs in as `user`; None is the cluster's own user, who may do
        everything.

        Raises MoldauError for an unknown user, and before `start`.
        """
        from moldau.transport.librdkafka import librdkafka_settings

        found = librdkafka_settings(self.access(user))
        return {name: value for name, value in found.items() if name != CLIENT_ID}

    def client_properties(self, user: str | None = None) -> dict[str, str]:
        """As `client_settings`, under the names that Kafka's own clients and `--command-config` use."""
        return {BOOTSTRAP_SERVERS: self.bootstrap_servers, **self._security.properties(user)}

    def access(self, user: str | None = None) -> ClusterAccess:
        """As `client_settings`, for `moldau.columnar`."""
        return ClusterAccess.from_properties(self.client_properties(user))

    def ssl_context(self, user: str | None = None) -> SSLContext:
        """The TLS context for Python clients such as aiokafka and kafka-python. With security="ssl" it logs in as
        `user`. Raises MoldauError for a cluster without TLS and for an unknown user."""
        from moldau.transport.security import context_of

        if not self._security.has_tls:
            raise MoldauError("the cluster has no TLS: it was made without security='ssl' and 'sasl_ssl'")
        return context_of(self.access(user).security)

    @property
    def is_running(self) -> bool:
        """Whether every broker runs. False before `start`, after `stop` and `kill`, and once a broker has stopped by
        itself."""
        return self._is_started and all(member.is_running for member in self._members)

    @property
    def node(self) -> Node:
        """The (first) broker itself, for tests of Moldau. Its internals change from release to release. Raises
        MoldauError."""
        self._check_started()
        return self._members.first().node

    def start(self) -> Cluster:
        """Starts the brokers, and returns once they serve. Raises the error of a failed start, such as a data directory
        in use."""
        with self._life:
            if self._is_started:
                raise MoldauError("the cluster is running already")
            self._members.open()
            self._addresses = ",".join(member.address for member in self._members)
            self._is_started = True
            self._owner_pid = os.getpid()
            _started.add(self)
        return self

    def stop(self) -> None:
        """Stops the brokers cleanly. Does nothing if the cluster does not run. Raises the error of a broker that had
        stopped by itself."""
        with self._life:
            if not self._is_started or self._owner_pid != os.getpid():
                return
            self._is_started = False
            _started.discard(self)
            try:
                self._members.end_all()
            finally:
                self._members.close()

    def kill(self, broker: int | None = None) -> None:
        """Ends one broker, or all, as kill -9 does: connections break and nothing more is written. Data already handed
        to the operating system is kept.

        The cluster keeps the port, which refuses connections. Does nothing if the broker does not run. `restart` brings
        it back.
        """
        with self._life:
            self._check_started()
            self._members.end(*self._ids(broker), is_clean=False)

    def restart(self, broker: int | None = None, *, clean: bool = True, timeout: float = START_TIMEOUT_S) -> None:
        """Starts one broker, or all, with the same data and ports. Stops running brokers cleanly first. Returns once
        all serve.

        `clean=False` kills running brokers instead. Faults, topics, offsets and the cluster's time are kept. A broker
        serves only while a majority of the brokers run and reach each other, so after `kill()` of all, `restart()` all
        together. Raises MoldauError for brokers that do not serve within `timeout` seconds, and leaves them as after
        `kill`.
        """
        with self._life:
            self._check_started()
            self._members.end(*self._ids(broker), is_clean=clean)
            self._members.boot(*self._ids(broker), timeout_s=timeout)

    def pause(self, broker: int | None = None) -> None:
        """Suspends one broker, or all, as SIGSTOP does: sockets stay open, but no request is answered until
        `resume`."""
        self._check_started()
        for member in self._members.chosen(broker):
            member.alive().pause()

    def resume(self, broker: int | None = None) -> None:
        """Resumes one broker, or all. Does nothing for a broker that was not paused."""
        for member in self._members.chosen(broker):
            if member.runtime is not None:
                member.runtime.resume()

    def _ids(self, broker: int | None) -> list[int]:
        return [member.node_id for member in self._members.chosen(broker)]

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Cluster:
        return self.start()

    async def __aexit__(self, *_: object) -> None:
        self.stop()

    def _check_started(self) -> None:
        if self._owner_pid and self._owner_pid != os.getpid():
            raise MoldauError("the cluster runs in the parent process: a child process can use only its address")
        if not self._is_started:
            raise MoldauError("the cluster is not running: use it as a context manager, or call start()")

    def check(self) -> None:
        """Raises the error of a broker that has stopped by itself, and any broken invariant that the brokers find
        now."""
        for member in self._members:
            member.check()

    def revive(self) -> None:
        """Restarts each broker that was killed or has stopped by itself."""
        with self._life:
            self._check_started()
            self._members.revive()

    # -- several brokers

    def leader(self, topic: str, partition: int = 0) -> int:
        """The id of the partition's leader; -1 if it has none. Raises UNKNOWN_TOPIC_OR_PARTITION."""
        self._check_started()
        return self._members.partition(topic, partition).leader

    def isr(self, topic: str, partition: int = 0) -> frozenset[int]:
        """The ids of the partition's in-sync replicas. Raises UNKNOWN_TOPIC_OR_PARTITION."""
        self._check_started()
        return frozenset(self._members.partition(topic, partition).isr)

    def isr_by_partition(self, topic: str) -> dict[int, frozenset[int]]:
        """As `isr`, for all partitions of the topic. Raises UNKNOWN_TOPIC_OR_PARTITION."""
        self._check_started()
        return {index: self.isr(topic, index) for index in self._contents.partitions(topic)}

    @property
    def controller(self) -> int:
        """The id of the broker with the active controller; -1 if none is active."""
        self._check_started()
        return self._members.controller()

    def partition(self, *sides: Iterable[int]) -> None:
        """`partition([1], [2, 3])` cuts the network between brokers of different sides until `heal`. Brokers that are
        not named form one more side. Clients still reach all brokers. A cut link loses nothing; its data waits."""
        self._check_started()
        self._members.links.cut(sides, self._ids(None))

    def slow(self, broker: int, ms: float) -> None:
        """Delays messages between the broker and the others by `ms` in each direction, until `heal`."""
        self._check_started()
        self._members.links.slow(self._members[broker].node_id, ms)

    def heal(self) -> None:
        """Restores every link between brokers, without delay."""
        self._check_started()
        self._members.links.heal()

    def troubles(self, seed: int, count: int = 10, kinds: Sequence[Kind] = ()) -> Generator[Trouble]:
        """`for trouble in cluster.troubles(seed=7):` disturbs one broker during each pass of the loop. The seed chooses
        the broker and the kind: kill, clean restart, pause, partition or slow network. `kinds` limits the choice.

        The same seed draws the same troubles. Raises ValueError for an unknown kind.
        """
        from moldau.testing.troubles import drawn, one_after_the_other

        self._check_started()
        return one_after_the_other(self, drawn(seed, count, self._ids(None), kinds))

    # -- faults

    @property
    def has_faults(self) -> bool:
        """Whether `faults` was ever used."""
        return self._faults is not None

    @property
    def faults(self) -> Faults:
        """The faults of this cluster and their log: `faults.drop("Produce")`, `faults.disk_full()`, `faults.log`,
        ..."""
        if self._faults is None:
            from moldau.testing.faults import Faults

            self._faults = Faults(self.now_ms, lambda: self._members.apply_faults(self.faults))
        return self._faults

    # -- time

    def now_ms(self) -> int:
        """The cluster's clock, in ms since the epoch."""
        return time.time_ns() // 1_000_000 + max((member.ahead_ms for member in self._members), default=0)

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Moves the cluster's time ahead, and returns when all consequences are complete: old records are deleted,
        silent members have left their groups, and committed offsets have expired.

        Only the brokers' time moves; clients stay in real time. A live member therefore looks silent: if its session
        times out, it gets UNKNOWN_MEMBER_ID and joins again. Several brokers behave as if all their machines had been
        suspended: they may elect new leaders, and this method returns when they are in sync again.
        """
        duration_ms = round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
        if duration_ms < 0:
            raise ValueError("the cluster's time cannot go back")
        self._check_started()
        with self._life:
            self._members.travel(duration_ms)

    # -- topics and records

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None) -> str:
        """Creates a topic and returns its name. `config`: Kafka's topic settings. Raises KafkaError."""
        texts = {key: _setting_text(value) for key, value in (config or {}).items()}
        self._check_started()
        self._contents.create_topic(name, partitions, texts)
        return name

    def topic(self, prefix: str = "topic", partitions: int = 1, config: Mapping[str, object] | None = None) -> str:
        """Creates a topic with an unused name, made of `prefix` and the next free number. Returns the name."""
        from moldau.errors import TopicAlreadyExistsError

        while True:
            self._topics_made += 1
            try:
                return self.create_topic(f"{prefix}-{self._topics_made}", partitions, config)
            except TopicAlreadyExistsError:
                continue  # a client created it, or it is in the data directory of an earlier cluster

    def delete_topic(self, name: str) -> None:
        """Deletes the topic and its records. Raises KafkaError."""
        self._check_started()
        self._contents.delete_topic(name)

    def produce(
        self,
        topic: str,
        *values: bytes | str | None,
        key: bytes | str | None = None,
        headers: Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> list[Record]:
        """Writes records without a client, and returns them with their offsets. Text is written as UTF-8.

        All records get the same key, headers and timestamp (ms since the epoch; None is the cluster's time).
        `partition` None: the key chooses the partition, as in Kafka's own producers; records without a key take
        partitions in turn. Raises ValueError without values. The value None writes a tombstone.
        """
        from moldau.testing.writing import encoded, encoded_headers, plan_values

        if not values:
            raise ValueError(f"produce({topic!r}) names no value: give one for each record, None for a tombstone")
        at_ms = self.now_ms() if timestamp is None else timestamp
        all_headers, key_bytes = encoded_headers(headers), encoded(key)
        all_values = [encoded(value) for value in values]
        self._check_started()
        partitions = self._contents.partitions(topic, partition, is_made=True)
        planned = plan_values(
            all_values, partitions, key=key_bytes, headers=all_headers, partition=partition, timestamp_ms=at_ms
        )
        return self._contents.write(topic, planned)

    def records(
        self, topic: str, *, partition: int | None = None, isolation: Isolation = "read_committed"
    ) -> Iterator[Record]:
        """Reads the present records of a topic without a client, partition by partition, in offset order.

        `isolation`: the `isolation.level` of the read. `read_committed` leaves out the records of aborted transactions,
        and everything from the first record of an open transaction on; `read_uncommitted` includes both. Transaction
        markers are never included. The call itself raises UNKNOWN_TOPIC_OR_PARTITION, and ValueError for another
        isolation.
        """
        if isolation not in get_args(Isolation):
            raise ValueError(f"isolation={isolation!r}: the values are 'read_committed' and 'read_uncommitted'")
        self._check_started()
        return self._contents.records(topic, partition, is_stable=isolation == "read_committed")

    def record_counts(self, topic: str) -> dict[int, int]:
        """The number of offsets in the log of each partition. Records may be fewer, because transaction markers and
        aborted or compacted records have offsets too."""
        self._check_started()
        return {index: end - start for index, (start, end) in self._contents.sizes(topic).items()}

    def stable_spans(self, topic: str) -> dict[int, tuple[int, int]]:
        """The first offset and the last stable offset of each partition. Below the last stable offset every transaction
        has ended."""
        self._check_started()
        return self._contents.sizes(topic, is_stable=True)

    # -- groups

    def group(self, group_id: str) -> GroupView:
        """State, members and lag of a consumer group. Raises GROUP_ID_NOT_FOUND for a group that does not exist or has
        expired."""
        self._check_started()
        return self._contents.group(group_id)

    @overload
    def lag(self, group_id: str, *, by_partition: Literal[False] = False) -> int: ...

    @overload
    def lag(self, group_id: str, *, by_partition: Literal[True]) -> dict[tuple[str, int], int]: ...

    def lag(self, group_id: str, *, by_partition: bool = False) -> int | dict[tuple[str, int], int]:
        """The number of records that a group has not committed: the total, or with `by_partition` {(topic, partition):
        lag}.

        Counts all partitions of the topics that the group is subscribed to or has committed offsets for. A partition
        without a committed offset counts in full. Raises GROUP_ID_NOT_FOUND, also for a group without members and
        offsets.
        """
        view = self.group(group_id)
        lag: dict[TopicPartition, int] = view.lag
        if not lag and not view.members:
            from moldau.errors import kafka_error

            raise kafka_error("GROUP_ID_NOT_FOUND", f"group {group_id!r} has no member and has committed nothing")
        if by_partition:
            return {(one.topic, one.partition): count for one, count in lag.items()}
        return sum(lag.values())

    # -- waiting

    def wait_for(
        self,
        predicate: Callable[[], object] | None = None,
        *,
        topic: str | None = None,
        records: int | None = None,
        isr: int | Iterable[int] | None = None,
        group: str | None = None,
        lag: int | None = None,
        members: int | None = None,
        timeout: float = DEFAULT_WAIT_S,
    ) -> None:
        """Waits until all given conditions hold:

        - `predicate` returns a true value; an AssertionError counts as false;
        - `topic` has at least `records` records, counted as `records(topic)` reads them (no aborted or open
          transaction);
        - each partition of `topic` has exactly the in-sync replicas `isr` (a number, or ids);
        - `group` has a lag of at most `lag`;
        - `group` is stable with exactly `members` members.

        `timeout` is in seconds. Raises NotReachedError, a TimeoutError whose message has the last state.
        """
        if _is_in_coroutine():
            raise MoldauError("wait_for would block your event loop: `await cluster.wait_for_async(...)` instead")
        from moldau.testing.waiting import make_check, pauses_until

        check = make_check(
            self, predicate, topic=topic, records=records, isr=isr, group=group, lag=lag, members=members
        )
        for _ in pauses_until(check, timeout):
            time.sleep(POLL_S)

    async def wait_for_async(
        self,
        predicate: Callable[[], object] | None = None,
        *,
        topic: str | None = None,
        records: int | None = None,
        isr: int | Iterable[int] | None = None,
        group: str | None = None,
        lag: int | None = None,
        members: int | None = None,
        timeout: float = DEFAULT_WAIT_S,
    ) -> None:
        """As `wait_for`, for coroutines: other tasks on your loop keep running."""
        from moldau.testing.waiting import make_check, pauses_until

        check = make_check(
            self, predicate, topic=topic, records=records, isr=isr, group=group, lag=lag, members=members
        )
        for _ in pauses_until(check, timeout):
            await _sleep(POLL_S)

    # -- fork

    def _abandon_in_child(self) -> None:
        """In a forked child, closes the sockets, which belong to the parent. The broker threads exist only in the
        parent."""
        self._members.abandon_in_child()
        self._life = threading.RLock()


_started: weakref.WeakSet[Cluster] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for cluster in list(_started):
        cluster._abandon_in_child()
    _started.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _check_names(settings: Iterable[str]) -> None:
    """Raises INVALID_CONFIG for a misspelt setting, which would make the test check something else."""
    for name in settings:
        near = setting_hint(name)
        if near:
            from moldau.errors import InvalidConfigError

            raise InvalidConfigError(f"{no_setting(name)}{near}")


def _setting_text(value: object) -> str:
    """The value in Kafka's notation: `true`, and lists with commas."""
    if isinstance(value, list | tuple):
        return ",".join(_setting_text(one) for one in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_in_coroutine() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _sleep(duration_s: float) -> None:
    """Sleeps under asyncio, or under trio if anyio runs on it."""
    if _is_in_coroutine():
        await asyncio.sleep(duration_s)
        return
    import anyio  # type: ignore[import-not-found, unused-ignore]

    await anyio.sleep(duration_s)
