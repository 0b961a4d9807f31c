"""One broker and one Spark session for the whole run: each takes seconds to start. `local[2]`, and no Java needed."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from moldau.client.protocol.access import ClusterAccess
from moldau.products.pipelines.core.commit_metadata import BoardPlace
from moldau.products.pipelines.running.runner import Onlooker, run_pipeline
from moldau.products.pipelines.spec.spec import parse_spec
from moldau.products.pipelines.targets.target import TargetQuery
from moldau.spark import open_session
from moldau.transport.held_port import hold_port
from tests.support.cluster_under_test import cluster_under_test
from tests.support.object_store import Bucket, environment_of, moto_server
from tests.support.postgresql import PostgresqlServer
from tests.support.receiver import Receiver
from tests.support.schema_registry import SchemaRegistry

Row = tuple[bytes | None, bytes | None]


@pytest.fixture(scope="session")
def bootstrap_servers() -> Iterator[str]:
    with cluster_under_test() as servers:
        yield servers


@pytest.fixture(scope="session")
def store_port() -> Iterator[int]:
    """Of the object store: held, because the session's processes know it before the store runs."""
    with hold_port("127.0.0.1") as held:
        yield int(held.getsockname()[1])


@pytest.fixture(scope="session")
def spark(store_port: int):
    """The JVM and its Python processes have the address of the object store in their environment."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment_of(f"http://127.0.0.1:{store_port}").items():
            patch.setenv(name, value)
        session = open_session("moldau-tests", cores=2)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def store_server(store_port: int) -> Iterator[str]:
    with moto_server(port=store_port) as address:
        yield address


@pytest.fixture(scope="module")
def object_store(store_server: str) -> Iterator[None]:
    """A store with Amazon's protocol; its address is in the environment."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment_of(store_server).items():
            patch.setenv(name, value)
        yield


@pytest.fixture
def bucket(object_store: None) -> Bucket:
    return Bucket()


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgresqlServer]:
    server = PostgresqlServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def registry(bootstrap_servers: str) -> Iterator[SchemaRegistry]:
    registry = SchemaRegistry(bootstrap_servers)
    yield registry
    registry.close()


@pytest.fixture
def new_name(request: pytest.FixtureRequest) -> Callable[[str], str]:
    counter = itertools.count()
    test = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    return lambda what: f"{what}-{test}-{os.getpid()}-{next(counter)}"[:200]


@pytest.fixture
def new_topic(bootstrap_servers: str, new_name: Callable[[str], str]) -> Callable[..., str]:
    """`new_topic(partitions=2)` creates a topic and gives its name; `name=` sets the name.

    It keeps records with any timestamp: the cluster's retention may run at any time.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})

    def create(partitions: int = 1, *, name: str | None = None, **config: str) -> str:
        topic = name or new_name("topic")
        config = {"retention.ms": "-1"} | config
        for future in admin.create_topics([NewTopic(topic, partitions, 1, config=config)]).values():
            future.result(timeout=30)
        return topic

    return create


@pytest.fixture
def produce(bootstrap_servers: str) -> Callable[..., None]:
    """`produce(topic, rows, partition=0, timestamp=..., headers=...)`; returns when all are acknowledged."""

    def send(topic: str, rows: Sequence[Row], *, partition: int = 0, **more: object) -> None:
        producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})
        for key, value in rows:
            producer.produce(topic, value, key, partition, **more)
        assert producer.flush(30) == 0

    return send


@pytest.fixture
def read_back(bootstrap_servers: str) -> Callable[[str], list[Row]]:
    """All (key, value) of a topic, by partition and offset, read without Spark."""
    from moldau.columnar.reader import read_topic

    def read(topic: str) -> list[Row]:
        rows = []
        for batch in read_topic(bootstrap_servers, topic):
            columns = [batch.column(name).to_pylist() for name in ("partition", "offset", "key", "value")]
            rows.extend(zip(*columns, strict=True))
        return [(key, value) for _, _, key, value in sorted(rows, key=lambda row: row[:2])]

    return read


@pytest.fixture
def run_spec(spark, bootstrap_servers, tmp_path):
    """`run_spec(text)` runs a pipeline once in this process, with its name, cluster and checkpoint filled in."""

    def run(text: str, name: str = "pipe", onlookers: Sequence[Onlooker] = (), board_port: int | None = None):
        head = f"name: {name}\nbootstrap_servers: {bootstrap_servers}\ncheckpoint: state\n"
        spec = parse_spec(head + text, file_name="spec.yaml", directory=tmp_path)
        with open(os.devnull, "w") as nowhere:
            return run_pipeline(
                spec,
                once=True,
                console=Console(file=nowhere),
                onlookers=onlookers,
                board=None if board_port is None else BoardPlace(board_port),
                retry_first_seconds=0.1,  # rejected requests are retried four times
            )

    return run


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join(60)


@pytest.fixture
def target_query(tmp_path) -> TargetQuery:
    """Of a pipeline `p` with a checkpoint `c1` that has begun its batches 0 to 9."""
    offsets = tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "9").touch()
    return TargetQuery("p", "p", offsets.parent, "c1", "group", ClusterAccess("127.0.0.1:1"), "p")
