"""All brokers of a cluster: creation, leaders, and the broker that can answer a call."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, wait
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from moldau.core.config.broker_settings import BrokerSettings, parse_broker_settings
from moldau.core.config.listeners import Endpoint
from moldau.core.config.replicated import replicated
from moldau.errors import ERROR_CODES, KafkaError, MoldauError, kafka_error
from moldau.testing.links import Links
from moldau.testing.member import POLL_S, Member, data_directory_of
from moldau.testing.ports import HeldPorts
from moldau.testing.runtime import START_TIMEOUT_S, Runtime
from moldau.testing.tracebacks import hides
from moldau.types import TopicPartition

if TYPE_CHECKING:
    from moldau.core.metadata.image import MetadataImage, PartitionImage
    from moldau.shell.broker.role import Broker
    from moldau.testing.faults import Faults
    from moldau.testing.security import ClusterSecurity

__tracebackhide__ = hides

T = TypeVar("T")
FAILOVER_S = 30.0
"""The longest wait for a partition or group that has no leader yet."""
LAST_LOOK_MS = 1_001
HOST = "127.0.0.1"
_UNKNOWN_PORTS = (1, 2)
CHOSEN_BY_CLUSTER = ("broker.id", "controller.quorum.voters", "listeners", "node.id", "process.roles")
"""Settings that a cluster of several brokers chooses itself."""
_PASSING = (
    "NOT_LEADER_OR_FOLLOWER",
    "NOT_COORDINATOR",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "LEADER_NOT_AVAILABLE",
    "OFFSET_NOT_AVAILABLE",
    "UNKNOWN_TOPIC_OR_PARTITION",  # this broker may not know the topic yet
)
_PASSING_CODES = frozenset(ERROR_CODES[name] for name in _PASSING)

# Settings that differ between several brokers and one: Kafka's replication of internal topics, and no delay before the
# first election and the first fetches of replicas.
_SETTINGS_OF_SEVERAL = {"replica.fetch.backoff.ms": "50"}
_ELECTION_TIMEOUT = "controller.quorum.election.timeout.ms"
_ELECTION_TIMEOUT_MS = "100"
_FIRST_ELECTION_TIMEOUT_MS = "20"
"""For broker 1 only, which is elected at the start before another one becomes a candidate. If all had this value, they
would become candidates at the same time, and votes would split on a busy machine."""
MAX_REPLICAS = 3


def settings_of_several(brokers: int, given: Container[str]) -> dict[str, str]:
    """The test settings for this number of brokers. Raises ValueError for an invalid number, and for a setting in
    `given` that the cluster chooses itself."""
    if brokers < 1:
        raise ValueError(f"brokers={brokers}: a cluster has at least one")
    if brokers == 1:
        return {}
    for name in CHOSEN_BY_CLUSTER:
        if name in given:
            raise ValueError(f"{name} cannot be set: a cluster of several brokers chooses it for each")
    replicas = min(brokers, MAX_REPLICAS)
    return _SETTINGS_OF_SEVERAL | replicated(replicas)


class Members:
    """The brokers from `open` to `close`, by node id from 1."""

    def __init__(self, texts: Mapping[str, str], data_dir: str | None, brokers: int, security: ClusterSecurity) -> None:
        """Raises INVALID_CONFIG for settings that a broker rejects."""
        self.count = brokers
        self._security = security
        self.links = Links()
        self._texts = dict(texts)
        self._data_dir = data_dir
        self._ports = HeldPorts()
        self._members: dict[int, Member] = {}
        self._faults: Faults | None = None
        self.settings = self._settings_of_member(1, dict.fromkeys(range(1, brokers + 1), _UNKNOWN_PORTS))
        """The settings of a broker, except for its ports."""

    # -- life

    def open(self) -> None:
        """Chooses the ports, creates the members and starts them. Raises the error of a failed start."""
        try:
            for settings in self._all_settings():
                directory = data_directory_of(self._data_dir, settings.node_id, self.count)
                network = self.links.network_of(settings.node_id, settings.socket_listen_backlog_size)
                self._members[settings.node_id] = Member(settings, directory, network)
            if self.count > 1:
                from moldau.testing.formatting import format_members

                format_members(self._members.values())
            if self._faults is not None:
                self.apply_faults(self._faults)
            self.boot(*self._members)
            self._enter_users()
        except BaseException:
            for member in self._members.values():
                if member.is_running:
                    member.end(is_clean=False)
            self.close()
            raise

    def _enter_users(self) -> None:
        """Creates users and ACLs, and returns when every broker knows them. Raises KafkaError, and MoldauError on a
        timeout."""
        if not self._security.has_entries:
            return
        self.ask(self._security.enter)
        quorums = [member.node.quorum for member in self._members.values()]
        newest = max(quorum.image.end_offset for quorum in quorums)
        deadline = time.monotonic() + FAILOVER_S
        while any(quorum.image.end_offset < newest for quorum in quorums):
            if time.monotonic() > deadline:
                raise MoldauError(f"not every broker knows the users and ACLs after {FAILOVER_S:.0f} s")
            time.sleep(POLL_S)

    def boot(self, *node_ids: int, timeout_s: float = START_TIMEOUT_S) -> None:
        """Starts these brokers, and returns once all serve. Raises the error of a failed start, and MoldauError on a
        timeout; then kills the brokers that do not serve yet and releases their ports and disks."""
        starting: dict[int, Runtime] = {}
        serving: list[int] = []
        try:
            for node_id in node_ids:
                runtime = starting[node_id] = self._members[node_id].boot()
                self.links.lives(node_id, runtime.post)
            # the others may wait for the one that has failed
            wait([runtime.ready for runtime in starting.values()], timeout_s, FIRST_EXCEPTION)
            serving += [node_id for node_id, runtime in starting.items() if runtime.has_served]
            for runtime in starting.values():
                runtime.raise_failed_start()
            late = [node_id for node_id in starting if node_id not in serving]
            if late:
                raise MoldauError(told_of_late(late, self.count, timeout_s, self.settings))
        except BaseException:
            for node_id in starting:
                if node_id not in serving:
                    self.links.ends(node_id)
                    self._members[node_id].give_up()
            raise

    def revive(self) -> None:
        """Restarts each broker that does not run, whatever ended it, and returns once they serve. Restarts them
        together, because they may need each other for a majority."""
        dead = [node_id for node_id, member in self._members.items() if not member.is_running]
        for node_id in dead:
            self._members[node_id].give_up()
        self.boot(*dead)

    def apply_faults(self, faults: Faults) -> None:
        """Applies the changed faults, also to brokers that start later."""
        self._faults = faults
        for member in self._members.values():
            member.apply_faults(faults)

    def close(self) -> None:
        """Releases the ports and the data in memory, after all lives have ended."""
        self._ports.release()
        self.links.heal()
        for member in self._members.values():
            member.forget()
        self._members = {}

    def end_all(self) -> None:
        """Ends all lives, cleanly if there are files to close. Raises as `end` does."""
        self.links.heal()
        # data in memory is lost anyway: no broker needs to take over
        self.end(*self._members, is_clean=self.count == 1 or self._data_dir is not None)

    def end(self, *node_ids: int, is_clean: bool) -> None:
        """Ends these lives at the same time. Raises the first error with which a broker had stopped by itself."""
        failures: list[BaseException] = []
        if is_clean:
            for node_id in node_ids:
                self._members[node_id].begin_stop()
        for node_id in node_ids:
            if not is_clean:
                self.links.ends(node_id)
            try:
                self._members[node_id].end(is_clean=is_clean)
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def abandon_in_child(self) -> None:
        """In a forked child, closes its copies of the parent's sockets."""
        for member in self._members.values():
            member.abandon_in_child()
        self._ports.release()

    def _all_settings(self) -> Iterator[BrokerSettings]:
        if self.count == 1:
            yield msgspec.structs.replace(self.settings, listeners=self._ports.choose(self.settings.listeners))
            return
        ports: dict[int, tuple[int, int]] = {}
        for node_id in range(1, self.count + 1):
            clients, controller = self._ports.choose((Endpoint("", HOST, 0), Endpoint("", HOST, 0)))
            ports[node_id] = clients.port, controller.port
            for port in ports[node_id]:
                self.links.name_port(port, node_id)
        for node_id in ports:
            yield self._settings_of_member(node_id, ports)

    def _settings_of_member(self, node_id: int, ports: Mapping[int, tuple[int, int]]) -> BrokerSettings:
        """`ports`: the client port and the controller port of each node id."""
        if self.count == 1:
            return parse_broker_settings(self._texts)
        port, controller_port = ports[node_id]
        own = {
            "node.id": str(node_id),
            "listeners": f"{self._security.protocol}://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
            "controller.quorum.voters": ",".join(f"{voter}@{HOST}:{each}" for voter, (_, each) in ports.items()),
        }
        wait_ms = _FIRST_ELECTION_TIMEOUT_MS if node_id == 1 else _ELECTION_TIMEOUT_MS
        return parse_broker_settings({_ELECTION_TIMEOUT: wait_ms, **self._texts, **own})

    # -- who is there

    def __getitem__(self, node_id: int) -> Member:
        """Raises MoldauError for an unknown broker."""
        member = self._members.get(node_id)
        if member is None:
            raise MoldauError(f"there is no broker {node_id!r}; the brokers are {', '.join(map(str, self._members))}")
        return member

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def first(self) -> Member:
        """The broker with the lowest id."""
        return next(iter(self._members.values()))

    def chosen(self, broker: int | None) -> list[Member]:
        """The broker with this id, or all for None."""
        return list(self._members.values()) if broker is None else [self[broker]]

    def answering(self) -> Member:
        """A broker that can answer. Raises MoldauError, and the error with which the only broker has stopped by
        itself."""
        if self.count == 1:
            return self.first()
        answering = [member for member in self._members.values() if member.is_answering]
        if answering:
            return max(answering, key=lambda member: self._standing(member, answering))
        for member in self._members.values():
            member.check()
        raise MoldauError("no broker of the cluster runs: call restart() or resume() first")

    def _standing(self, member: Member, answering: Sequence[Member]) -> tuple[int, bool]:
        """The number of brokers that follow the same quorum leader as `member`, and whether it leads. A member that was
        cut off and still takes itself for the leader ranks below the others."""
        leader = member.node.quorum.leader_id
        followed_by = sum(each.node.quorum.leader_id == leader for each in answering) if leader >= 0 else 0
        return followed_by, leader == member.node_id

    # -- the way to whoever can answer

    def ask(self, work: Callable[[Broker], Coroutine[Any, Any, T]]) -> T:
        """Runs `work` on the loop of a broker that answers."""
        return self.answering().ask(work)

    def ask_leader(self, topic: str, index: int, work: Callable[[Broker], Coroutine[Any, Any, T]]) -> T:
        """Runs `work` on the loop of the broker that leads the partition, which must exist. Waits while it has no
        leader."""
        if self.count == 1:
            return self.ask(work)
        return self._until_led(lambda: self._leader_of(topic, index).ask(work))

    def ask_coordinator(self, work: Callable[[Broker], Coroutine[Any, Any, T]]) -> T:
        """Runs `work` on one broker after the other, until one does not answer NOT_COORDINATOR."""
        if self.count == 1:
            return self.ask(work)

        def try_all() -> T:
            refusal: KafkaError | None = None
            for member in self._members.values():
                if not member.is_answering:
                    continue
                try:
                    return member.ask(work)
                except KafkaError as error:
                    if error.code != ERROR_CODES["NOT_COORDINATOR"]:
                        raise
                    refusal = error
            raise refusal or kafka_error("NOT_COORDINATOR", "no broker of the cluster answers")

        return self._until_led(try_all)

    def _until_led(self, asked: Callable[[], T]) -> T:
        deadline = time.monotonic() + FAILOVER_S
        while True:
            try:
                return asked()
            except KafkaError as error:
                if error.code not in _PASSING_CODES or time.monotonic() >= deadline:
                    raise
            time.sleep(POLL_S)

    def _leader_of(self, topic: str, index: int) -> Member:
        member = self._members.get(_partition_of(self.image(), topic, index).leader)
        if member is None or not member.is_answering:
            raise kafka_error("LEADER_NOT_AVAILABLE", f"partition {topic}-{index} has no leader that answers")
        return member

    # -- time

    def travel(self, duration_ms: int) -> None:
        """Moves the time of all brokers at once, and returns when all consequences are complete.

        A single broker runs timer by timer. Several behave as after a suspension of all their machines: their sessions
        expire and begin again. At the end a little more time passes, for checks that run once a second.
        """
        if self.count == 1:
            only = self.answering()
            if only.runtime is None:
                only.skip(duration_ms)
            else:
                only.ask(lambda broker: only.travel(broker, duration_ms))
            return
        for stride_ms in (duration_ms, LAST_LOOK_MS):
            for member in self._members.values():
                member.skip(stride_ms)
            self.wait_settled()
            for member in self._members.values():
                if member.is_answering:
                    member.ask(member.settle)

    def wait_known(self, topic: str, *, is_there: bool) -> None:
        """Returns once every broker that is not cut off knows that the topic exists, or that it is deleted."""
        deadline = time.monotonic() + FAILOVER_S
        while self.count > 1 and time.monotonic() < deadline:
            if all((topic in image.topics_by_name) == is_there for image in self._images_in_touch()):
                break
            time.sleep(POLL_S)

    def _images_in_touch(self) -> list[MetadataImage]:
        """The images of the brokers that can reach the first answering one."""
        asked = self.answering().node_id
        return [
            member.node.broker.image
            for member in self._members.values()
            if member.is_answering and not self.links.are_apart(asked, member.node_id)
        ]

    # -- what the metadata says

    def image(self) -> MetadataImage:
        """The metadata image of the first answering broker."""
        return self.answering().node.broker.image

    def partition(self, topic: str, index: int) -> PartitionImage:
        """The partition as its leader knows it, if the leader answers. Raises UNKNOWN_TOPIC_OR_PARTITION."""
        newest = _partition_of(self.image(), topic, index)
        leader = self._members.get(newest.leader)
        if leader is None or not leader.is_answering:
            return newest
        return _partition_of(leader.node.broker.image, topic, index)

    def controller(self) -> int:
        """The node id of the active controller, as an answering broker knows it; -1 if none is active."""
        return self.answering().node.quorum.leader_id

    def is_settled(self) -> bool:
        """Whether one controller is active, every broker that answers serves, and its replicas are in sync."""
        serving = {member.node_id for member in self._members.values() if member.is_answering}
        if self.controller() not in serving:
            return False
        image = self.image()
        if any(image.brokers[each].is_fenced for each in serving if each in image.brokers):
            return False
        return all(
            serving.intersection(partition.replicas) <= set(partition.isr)
            for topic in image.topics_by_name.values()
            for partition in topic.partitions.values()
        )

    def wait_settled(self) -> None:
        """Returns once `is_settled`, or after a time limit."""
        deadline = time.monotonic() + FAILOVER_S
        while self.count > 1 and not self.is_settled() and time.monotonic() < deadline:
            time.sleep(POLL_S)


def told_of_late(late: Sequence[int], brokers: int, timeout_s: float, settings: BrokerSettings) -> str:
    """The error text for the node ids that do not serve in time, in a cluster of `brokers` brokers."""
    from moldau.shell.node.authorization import super_users_to_add, unnamed_nodes

    who = f"broker{'s' if len(late) > 1 else ''} {', '.join(map(str, late))}"
    story = f"{who} did not serve within {timeout_s:g} s"
    if brokers == 1:
        return story
    missing = unnamed_nodes(settings)
    if missing:
        return f"{story}: super.users does not name the brokers; add {super_users_to_add(missing)}"
    return f"{story}: a majority of the brokers must run and reach each other"


def _partition_of(image: MetadataImage, topic: str, index: int) -> PartitionImage:
    found = image.topics_by_name.get(topic)
    if found is None or index not in found.partitions:
        raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION", f"there is no partition {TopicPartition(topic, index)}")
    return found.partitions[index]
