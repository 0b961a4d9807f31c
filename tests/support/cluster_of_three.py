"""Three nodes, each a process, that form one cluster of Moldau or of Apache Kafka."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from moldau.core.metadata.snapshot import METADATA_DIRECTORY
from moldau.types import Uuid, uuid_to_text
from tests.support.apache_kafka import CLUSTER_ID, check_with_kafkas_tools, java, run_java
from tests.support.held_port import held_port, port_of

NODE_IDS = (1, 2, 3)
TOPIC = "orders"
PARTITIONS = 3
WAIT_S = 120
STOP_S = 20
BOTH_ROLES = dict.fromkeys(NODE_IDS, "broker,controller")
SEPARATE_ROLES = {1: "controller", 2: "broker", 3: "broker"}
# Moldau does not serve them yet, so a cluster with a Moldau node may not have them
UNSERVED = ("group.version=0", "share.version=0", "streams.version=0")

Command = Callable[[Path], list[str]]


def moldau_command(config: Path) -> list[str]:
    return [sys.executable, "-m", "moldau.cli.main", "up", "--no-console", "--config", str(config)]


def apache_command(libs: str) -> Command:
    return lambda config: [java(), "-Xmx384m", "-cp", f"{libs}/*", "kafka.Kafka", str(config)]


def format_directory(config: Path, *more: str, by_kafka: bool, features: tuple[str, ...] = UNSERVED) -> None:
    """The directory of the node whose properties are `config`. `features`: if they are not the defaults."""
    words = ["format", "-t", CLUSTER_ID, "-c", str(config), *more]
    words += [word for name in features for word in ("--feature", name)]
    if by_kafka:
        run_java("kafka.tools.StorageTool", *words)
    else:
        command = [sys.executable, "-m", "moldau.cli.main", "kafka-storage", *words]
        subprocess.run(command, check=True, capture_output=True, timeout=WAIT_S)


def first_directory_id(node_id: int) -> str:
    """The id of this node's directory, if the first voters are records of the log."""
    return uuid_to_text(Uuid(bytes([node_id]) * 16))


class ClusterOfThree:
    """`commands`: how each node is started, by id; `roles`: its `process.roles`. Moldau formats every directory, except
    Kafka its own. `voters_in_log`: the voters are records of the log (KIP-853), not a setting. `settings`: more of each
    node. `later`: nodes that may replace those; clients know their addresses before. `features`: of the cluster, if
    they are not the defaults; None: those that both kinds serve, if there are both. `clients`: settings of librdkafka,
    for listeners that need more than an address."""

    def __init__(
        self,
        scratch: Path,
        commands: dict[int, Command],
        formatted_by_kafka: tuple[int, ...] = (),
        roles: dict[int, str] = BOTH_ROLES,
        *,
        voters_in_log: bool = False,
        settings: Mapping[str, str] | None = None,
        later: tuple[int, ...] = (),
        features: tuple[str, ...] | None = None,
        clients: Mapping[str, str] | None = None,
    ) -> None:
        self._scratch = scratch
        is_of_moldau = all(command is moldau_command for command in commands.values())
        self._features = features if features is not None else () if is_of_moldau else UNSERVED
        self._settings = settings or {}
        self._own_settings: dict[int, dict[str, str]] = {}
        self._commands = commands
        self._roles = dict(roles)
        self._brokers = [node_id for node_id in NODE_IDS if "broker" in roles[node_id]]
        self._factor = len(self._brokers)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._held = {node_id: (held_port(), held_port()) for node_id in (*NODE_IDS, *later)}
        """The ports are held because the voters are written before a node listens."""
        ports = {node_id: self.ports_of(node_id) for node_id in NODE_IDS}
        reached = [self.ports_of(node_id)[0] for node_id in (*self._brokers, *later)]
        self.bootstrap_servers = ",".join(f"127.0.0.1:{port}" for port in reached)
        self._clients: dict[str, str] = {"bootstrap.servers": self.bootstrap_servers, **(clients or {})}
        controllers = {node_id: port for node_id, (_, port) in ports.items() if "controller" in roles[node_id]}
        self.bootstrap_controllers = ",".join(f"127.0.0.1:{port}" for port in controllers.values())
        self._controllers: list[int] = []
        """With voters in the log: the controllers that a new node asks for them."""
        voters = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in controllers.items())
        self._quorum = {"controller.quorum.voters": voters}
        first: tuple[str, ...] = ()
        if voters_in_log:
            self._quorum = {}
            self._controllers = list(controllers)
            first = (
                "--initial-controllers",
                ",".join(
                    f"{voter}:{first_directory_id(node_id)}"
                    for voter, node_id in zip(voters.split(","), controllers, strict=True)
                ),
            )
        for node_id in NODE_IDS:
            self._write_config(node_id)
            self._format(node_id, *first, by_kafka=node_id in formatted_by_kafka)

    def _format(self, node_id: int, *more: str, by_kafka: bool) -> None:
        format_directory(self.config_of(node_id), *more, by_kafka=by_kafka, features=self._features)

    def ports_of(self, node_id: int) -> tuple[int, int]:
        """Of its listeners for clients and for controllers."""
        broker, controller = self._held[node_id]
        return port_of(broker), port_of(controller)

    def _write_config(self, node_id: int) -> None:
        roles, (port, controller_port) = self._roles[node_id], self.ports_of(node_id)
        controllers = ",".join(f"127.0.0.1:{self.ports_of(each)[1]}" for each in self._controllers)
        points = {"broker": f"PLAINTEXT://127.0.0.1:{port}", "controller": f"CONTROLLER://127.0.0.1:{controller_port}"}
        listeners = ",".join(points[role] for role in roles.split(","))
        values = {
            "process.roles": roles,
            "node.id": str(node_id),
            "controller.listener.names": "CONTROLLER",
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            **(self._quorum or {"controller.quorum.bootstrap.servers": controllers}),
            "log.dirs": str(self.data_of(node_id)),
            "default.replication.factor": str(self._factor),
            "min.insync.replicas": str(self._factor - 1),
            "offsets.topic.replication.factor": str(self._factor),
            "offsets.topic.num.partitions": "1",
            "broker.session.timeout.ms": "4000",
            "broker.heartbeat.interval.ms": "500",
            **self._settings,
            **self._own_settings.get(node_id, {}),
        }
        self.config_of(node_id).write_text("".join(f"{name}={value}\n" for name, value in values.items()))

    def start(self, node_id: int) -> None:
        with (self._scratch / f"node-{node_id}.log").open("ab") as log:
            command = self._commands[node_id](self.config_of(node_id))
            self._processes[node_id] = subprocess.Popen(
                command, cwd=self._scratch, stdout=log, stderr=subprocess.STDOUT
            )

    def restart(self, node_id: int, settings: Mapping[str, str]) -> None:
        """Stops the node cleanly and starts it with these settings too; returns when the cluster is whole again."""
        process = self._processes.pop(node_id)
        process.terminate()
        assert process.wait(WAIT_S) == 0, self.told()
        self._own_settings.setdefault(node_id, {}).update(settings)
        self._write_config(node_id)
        self.start(node_id)
        self.wait_for_brokers()
        self.wait_whole()

    def move_clients(self, clients: Mapping[str, str]) -> None:
        """From now on the cluster's clients have these settings of librdkafka."""
        self._clients = dict(clients)

    def prepare_broker(self, node_id: int, command: Command) -> None:
        """Writes the settings and the directory of a further node with only the broker role."""
        self._held[node_id] = held_port(), held_port()
        self._commands[node_id], self._roles[node_id] = command, "broker"
        self._write_config(node_id)
        self._format(node_id, by_kafka=command is not moldau_command)

    def join(self, node_id: int) -> None:
        """Starts a prepared broker, and waits until the others know it."""
        self._brokers.append(node_id)
        self.start(node_id)
        self.wait_for_brokers()

    def refusal_of(self, node_id: int) -> str:
        """The last message of a node that ends by itself instead of joining the others."""
        self.start(node_id)
        assert self._processes.pop(node_id).wait(WAIT_S) == 1, self.told()
        return (self._scratch / f"node-{node_id}.log").read_text().splitlines()[-1]

    def add_broker(self, node_id: int, command: Command) -> None:
        """Starts a further node with only the broker role, and waits until the others know it."""
        self.prepare_broker(node_id, command)
        self.join(node_id)

    def replace(self, node_id: int, command: Command) -> None:
        """kill -9 of a node whose disk is lost: another kind of node takes its id, with an empty directory, and its
        place among the voters in the log. Kafka's tool sends the requests to the quorum."""
        self.kill(node_id)
        self._brokers.remove(node_id)
        self.wait_for_brokers()
        gone = ("--controller-id", str(node_id), "--controller-directory-id", first_directory_id(node_id))
        self._ask_quorum("remove-controller", *gone)
        self.lose_directory(node_id)
        self._commands[node_id] = command
        self._format(node_id, "--no-initial-controllers", by_kafka=command is not moldau_command)
        self.start(node_id)
        self._brokers.append(node_id)
        self.wait_for_brokers()
        self._ask_quorum("--command-config", str(self.config_of(node_id)), "add-controller")

    def succeed(self, old: int, new: int, command: Command) -> None:
        """An empty node with another id takes over everything from an old node, which then ends and is removed: no
        partition ever lacks a replica. Our commands send the requests to the cluster."""
        self._commands[new], self._roles[new] = command, "broker,controller"
        self._write_config(new)
        self._format(new, "--no-initial-controllers", by_kafka=command is not moldau_command)
        self.start(new)
        self._brokers.append(new)
        self.wait_for_brokers()
        self._run_moldau("quorum", "add", str(self.config_of(new)), "-b", self.bootstrap_servers)
        self._controllers.append(new)
        self._run_moldau("brokers", "decommission", str(old), "--execute", "-b", self.bootstrap_servers)
        # Apache Kafka's node stops while it is a voter: a removed former leader of the quorum asks its bootstrap
        # servers for the new leader, for five minutes if they are all gone
        process = self._processes.pop(old)
        process.terminate()
        process.wait(WAIT_S)
        self._brokers.remove(old)
        self.wait_for_brokers()
        self._run_moldau("quorum", "remove", str(old), "-b", self.bootstrap_servers)
        self._controllers.remove(old)
        words = ("--id", str(old), "--bootstrap-server", self.bootstrap_servers)
        self._run_moldau("kafka-cluster", "unregister", *words)
        self.lose_directory(old)

    def _run_moldau(self, *words: str) -> None:
        command = [sys.executable, "-m", "moldau.cli.main", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}{self.told()}"

    def running(self) -> dict[int, Command]:
        """The command of each node whose process has not ended."""
        return {node_id: self._commands[node_id] for node_id in self._processes}

    def check_with_kafkas_tools(self) -> None:
        """By Kafka's own tools every running node votes, and every replica is in sync."""
        check_with_kafkas_tools(self.bootstrap_servers, [*self._processes])

    def _ask_quorum(self, *words: str) -> None:
        run_java("org.apache.kafka.tools.MetadataQuorumCommand", "--bootstrap-server", self.bootstrap_servers, *words)

    def config_of(self, node_id: int) -> Path:
        """The settings of a node."""
        return self._scratch / f"node-{node_id}.properties"

    def data_of(self, node_id: int) -> Path:
        """The log directory of a node."""
        return self._scratch / f"data-{node_id}"

    def lose_directory(self, node_id: int) -> None:
        """Deletes the log directory of a node that does not run."""
        shutil.rmtree(self.data_of(node_id))

    def kill(self, node_id: int) -> None:
        """kill -9."""
        process = self._processes.pop(node_id)
        process.kill()
        process.wait(WAIT_S)

    @contextmanager
    def standing_still(self, node_id: int) -> Iterator[None]:
        """SIGSTOP until the end of the block: its connections stay open, and it answers nothing."""
        process = self._processes[node_id]
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def restart_all(self, commands: dict[int, Command], *, is_clean: bool) -> None:
        """All nodes end, by SIGTERM or by kill -9, and others start on their directories. The last nodes of Apache
        Kafka wait for a quorum that has already ended: they are killed then."""
        running = [self._processes.pop(node_id) for node_id in [*self._processes]]
        for process in running:
            process.send_signal(signal.SIGTERM if is_clean else signal.SIGKILL)
        for process in running:
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(WAIT_S)
        self._commands.update(commands)
        for node_id in commands:
            self.start(node_id)
        self.wait_for_brokers()
        self.wait_in_sync()

    def stop(self) -> None:
        """Ends all processes that still run."""
        for node_id in [*self._processes]:
            self.kill(node_id)
        for held in self._held.values():
            for each in held:
                each.close()

    def told(self) -> str:
        """The output of the nodes, for a failure."""
        return "\n".join(path.read_text()[-3_000:] for path in sorted(self._scratch.glob("node-*.log")))

    def wait_for_brokers(self) -> None:
        admin = AdminClient({**self._clients, "log_level": 0})
        self.wait_until(lambda: len(admin.list_topics(timeout=1).brokers) == len(self._brokers))

    def wait_in_sync(self) -> None:
        """Waits until every partition of the topic has all its replicas in sync."""
        admin = AdminClient({**self._clients, "log_level": 0})

        def is_in_sync() -> bool:
            partitions = admin.list_topics(TOPIC, timeout=1).topics[TOPIC].partitions.values()
            return len(partitions) == PARTITIONS and all(len(each.isrs) == self._factor for each in partitions)

        self.wait_until(is_in_sync)

    def wait_whole(self) -> None:
        """Waits until every partition of every topic, internal ones too, has all its replicas in sync."""
        admin = AdminClient({**self._clients, "log_level": 0})

        def is_whole() -> bool:
            topics = admin.list_topics(timeout=1).topics.values()
            return all(len(each.isrs) == len(each.replicas) for row in topics for each in row.partitions.values())

        self.wait_until(is_whole)

    def wait_out_of_sync(self, node_id: int) -> None:
        """Waits until the other nodes see this node in sync in no partition of the topic."""
        admin = AdminClient({**self._clients, "log_level": 0})

        def is_out() -> bool:
            partitions = admin.list_topics(TOPIC, timeout=1).topics[TOPIC].partitions.values()
            return all(node_id not in each.isrs and each.leader not in (-1, node_id) for each in partitions)

        self.wait_until(is_out)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Repeats, within a bound, until it is true. A KafkaException counts as false."""
        pausing = Producer({**self._clients, "log_level": 0})
        for _ in range(WAIT_S * 5):
            try:
                if condition():
                    return
            except KafkaException:
                pass  # no broker answered in time
            pausing.poll(0.2)
        pytest.fail(self.told())

    def create_topic(self, name: str = TOPIC) -> None:
        admin = AdminClient({**self._clients})
        admin.create_topics([NewTopic(name, PARTITIONS, self._factor)])[name].result(WAIT_S)

    def replicas_of_new_topic(self, name: str, factor: int) -> list[tuple[int, ...]]:
        """Where the controller placed each partition."""
        admin = AdminClient({**self._clients})
        admin.create_topics([NewTopic(name, PARTITIONS, factor)])[name].result(WAIT_S)
        self.wait_until(lambda: len(admin.list_topics(name, timeout=1).topics[name].partitions) == PARTITIONS)
        found = admin.list_topics(name, timeout=WAIT_S).topics[name].partitions
        return [tuple(found[index].replicas) for index in sorted(found)]

    def cordon(self, broker_id: int, directories: str | None) -> None:
        """`cordoned.log.dirs` of one broker, or its default again; returns when the controller knows."""
        known = len(self.cordonings_of(broker_id))
        operation = AlterConfigOpType.DELETE if directories is None else AlterConfigOpType.SET
        change = ConfigEntry("cordoned.log.dirs", directories, incremental_operation=operation)
        resource = ConfigResource(ConfigResource.Type.BROKER, str(broker_id), incremental_configs=[change])
        admin = AdminClient({**self._clients})
        admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
        self.wait_until(lambda: len(self.cordonings_of(broker_id)) > known)

    def cordonings_of(self, broker_id: int) -> list[int]:
        """The number of cordoned directories in each record, in the log of the first node."""
        log = self._scratch / "data-1" / METADATA_DIRECTORY / "00000000000000000000.log"
        words = ["log", "dump", "--cluster-metadata-decoder", str(log)]
        dump = [sys.executable, "-m", "moldau.cli.main", *words]
        told = subprocess.run(dump, check=True, capture_output=True, text=True, timeout=WAIT_S).stdout
        records = [json.loads(found) for found in re.findall(r"payload: (\{.*\})", told)]
        changes = [one["data"] for one in records if one["type"] == "BROKER_REGISTRATION_CHANGE_RECORD"]
        return [
            len(one["cordonedLogDirs"])
            for one in changes
            if one["brokerId"] == broker_id and one.get("cordonedLogDirs") is not None
        ]

    def new_producer(self) -> Producer:
        """Idempotent, with acks=all."""
        settings = {**self._clients, "enable.idempotence": True, "log_level": 0}
        return Producer({**settings, "delivery.timeout.ms": WAIT_S * 1_000, "linger.ms": 1})

    def produce(self, tag: str, count: int, producer: Producer | None = None) -> list[str]:
        """By `producer`, or a new one; all records are acknowledged."""
        return list(self.produce_placed(tag, count, producer).values())

    def produce_placed(
        self, tag: str, count: int, producer: Producer | None = None, *, size: int = 0
    ) -> dict[tuple[int, int], str]:
        """As `produce`, to each partition in turn; gives the values by partition and offset. `size`: minimum bytes of
        each value."""
        producer = producer or self.new_producer()
        failed: list[str] = []
        placed: dict[tuple[int, int], str] = {}

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed.append(str(error))
            else:
                placed[message.partition(), message.offset()] = str(message.value(), "utf-8")

        for number in range(count):
            value = f"{tag}-{number}".ljust(size, ".")
            producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=delivered)
            producer.poll(0)
        assert producer.flush(WAIT_S) == 0, self.told()
        assert failed == []
        return placed

    def read_all(self, count: int) -> list[str]:
        """`count` records, and those that follow within a second."""
        settings = {**self._clients, "group.id": "nobody", "auto.offset.reset": "earliest"}
        consumer = Consumer({**settings, "enable.auto.commit": False, "log_level": 0})
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
        found: list[str] = []
        for _ in range(WAIT_S):
            messages = consumer.consume(1_000, 1)
            if not messages and len(found) >= count:
                break
            found += [str(message.value(), "utf-8") for message in messages if message.error() is None]
        consumer.close()
        return found


@contextmanager
def cluster_of_three(
    scratch: Path,
    commands: dict[int, Command],
    formatted_by_kafka: tuple[int, ...] = (),
    roles: dict[int, str] = BOTH_ROLES,
    *,
    voters_in_log: bool = False,
    settings: Mapping[str, str] | None = None,
    later: tuple[int, ...] = (),
    features: tuple[str, ...] | None = None,
    clients: Mapping[str, str] | None = None,
) -> Iterator[ClusterOfThree]:
    """All three nodes, started, and known to each other."""
    cluster = ClusterOfThree(
        scratch,
        commands,
        formatted_by_kafka,
        roles,
        voters_in_log=voters_in_log,
        settings=settings,
        later=later,
        features=features,
        clients=clients,
    )
    try:
        for node_id in NODE_IDS:
            cluster.start(node_id)
        cluster.wait_for_brokers()
        yield cluster
    finally:
        cluster.stop()


def check_that_each_may_die(cluster: ClusterOfThree) -> None:
    """kill -9 of one node after the other, while an idempotent producer sends: no acknowledged record is lost or
    duplicated.

    The producer exists before the first kill: without a controller a broker soon has no more producer ids."""
    cluster.create_topic()
    producer = cluster.new_producer()
    written = cluster.produce("before", 500, producer)
    for node_id in NODE_IDS:
        cluster.wait_in_sync()
        cluster.kill(node_id)
        written += cluster.produce(f"without-{node_id}", 500, producer)
        cluster.start(node_id)
    cluster.wait_in_sync()
    written += cluster.produce("after", 500)
    assert sorted(cluster.read_all(len(written))) == sorted(written)
