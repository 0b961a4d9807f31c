"""The pytest plugin in user suites: each runs in its own pytest, with common runners and plugins."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

WRITE = """
from confluent_kafka import Consumer, Producer

def write(address, topic, value=b"v"):
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0, "log_level": 0})
    producer.produce(topic, value)
    assert producer.flush(30) == 0
"""

MISTAKES = {
    "c.lag('nobody')": "moldau.errors.GroupIdNotFoundError: group 'nobody' has no member",
    "c.records('absent')": "moldau.errors.UnknownTopicOrPartitionError: there is no topic 'absent'",
    "c.create_topic('t'), c.create_topic('t')": "moldau.errors.TopicAlreadyExistsError: ",
    "c.produce('t', 3)": "TypeError: a key or a value is bytes, str or None",
    "c.faults.drop('Prodcue')": "ValueError: the broker serves no request named 'Prodcue'",
    "c.faults.error('Produce', 'NOT_COORD')": "ValueError: Kafka has no error 'NOT_COORD'",
    "c.wait_for(topic='t', records=9, timeout=0)": "moldau.testing.NotReachedError: waited for 0 s",
    "c.pause(), c.lag('g')": "moldau.errors.MoldauError: the cluster is paused",
    "c.stop(), c.bootstrap_servers": "moldau.errors.MoldauError: the cluster is not running",
    "type(c)(settings={'num.partition': 1})": "moldau.errors.InvalidConfigError: num.partition is not a setting",
    "type(c)(settings={'num.partitions': 0})": "moldau.errors.InvalidConfigError: Invalid value 0",
    "type(c)(data_dir='.').start(), type(c)(data_dir='.').start()": "moldau.errors.MoldauError: ",
}
"""A wrong line of a test, and the sentence that the test shows."""

SUITES = {
    "mistaken": "\n".join(
        f"def test_mistake_{number}(moldau_own_cluster):\n    c = moldau_own_cluster\n    {line}\n"
        for number, line in enumerate(MISTAKES)
    ),
    "plain": """
import pytest
from moldau.errors import MoldauError
from helpers import write

@pytest.mark.parametrize("number", range(20))
def test_each_has_its_topic(moldau_cluster, moldau_topic, number):
    write(moldau_cluster.bootstrap_servers, moldau_topic)
    assert [record.value for record in moldau_cluster.records(moldau_topic)] == [b"v"]

def test_leaves_faults_and_a_paused_broker(moldau_cluster):
    moldau_cluster.faults.drop("Produce", times=None)
    moldau_cluster.faults.disk_full()
    moldau_cluster.pause()

def test_finds_none_of_it(moldau_cluster, moldau_topic):
    assert moldau_cluster.faults.log == ()
    write(moldau_cluster.bootstrap_servers, moldau_topic)

def test_leaves_it_dead(moldau_cluster, moldau_topic):
    moldau_cluster.kill()

def test_finds_it_alive(moldau_cluster, moldau_topic):
    write(moldau_cluster.bootstrap_servers, moldau_topic)

def test_has_one_to_itself(moldau_cluster, moldau_own_cluster):
    moldau_own_cluster.produce("t", "1")
    with pytest.raises(MoldauError):
        moldau_cluster.records("t")
""",
    "marked": """
import pytest
from confluent_kafka import KafkaError, Producer
from moldau.testing import allow

pytestmark = pytest.mark.moldau(security="sasl_ssl", users={"alice": "secret"})

def write(cluster, topic):
    errors = []
    producer = Producer({**cluster.client_settings("alice"), "linger.ms": 0, "log_level": 0})
    producer.produce(topic, b"v", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    return errors[0] and errors[0].code()

@pytest.mark.moldau(acls=[allow("alice", "write", "create", topic="orders")])
def test_has_acls_too(moldau_own_cluster):
    assert write(moldau_own_cluster, "orders") is None
    assert write(moldau_own_cluster, "other") == KafkaError.TOPIC_AUTHORIZATION_FAILED

@pytest.mark.moldau(security="ssl", brokers=3)
def test_has_another_security_and_three_brokers(moldau_own_cluster):
    assert moldau_own_cluster.client_settings()["security.protocol"] == "SSL"
    assert write(moldau_own_cluster, "orders") is None

def test_has_that_of_the_module(moldau_own_cluster):
    assert moldau_own_cluster.client_settings("alice")["sasl.mechanism"] == "SCRAM-SHA-512"

def test_needs_no_cluster():
    pass
""",
    "wrong_marker": """
import pytest

@pytest.mark.moldau(security="ssl")
def test_has_no_cluster_of_its_own(moldau_cluster):
    pass
""",
    "asyncio": """
import asyncio, pytest
from aiokafka import AIOKafkaProducer

@pytest.fixture
async def producer(moldau_cluster):
    async with AIOKafkaProducer(bootstrap_servers=moldau_cluster.bootstrap_servers) as producer:
        yield producer

async def test_writes(producer, moldau_cluster, moldau_topic):
    await producer.send_and_wait(moldau_topic, b"v")
    await moldau_cluster.wait_for_async(topic=moldau_topic, records=1)

async def test_retries_beside_a_fault(producer, moldau_cluster, moldau_topic):
    moldau_cluster.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", topic=moldau_topic)
    await producer.send_and_wait(moldau_topic, b"v")
    assert moldau_cluster.faults.count("Produce", "error") == 1
    assert len(list(moldau_cluster.records(moldau_topic))) == 1
""",
    "anyio": """
import anyio, pytest
from functools import partial
from helpers import write

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.anyio
async def test_writes(moldau_cluster, moldau_topic):
    async with anyio.create_task_group() as group:
        group.start_soon(partial(anyio.to_thread.run_sync, write, moldau_cluster.bootstrap_servers, moldau_topic))
        await moldau_cluster.wait_for_async(topic=moldau_topic, records=1)
""",
    "unittest": """
import unittest
from moldau.testing import Cluster
from helpers import write

class OrdersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster())

    def setUp(self):
        self.topic = self.cluster.topic("orders")
        self.addCleanup(self.cluster.faults.clear)

    def test_writes(self):
        write(self.cluster.bootstrap_servers, self.topic)
        self.assertEqual(len(list(self.cluster.records(self.topic))), 1)

    def test_once_more(self):
        self.assertEqual(list(self.cluster.records(self.topic)), [])
""",
    "forked": """
import multiprocessing, os
from helpers import write

def test_children_write_to_the_parents_broker(moldau_cluster, moldau_topic):
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=write, args=(moldau_cluster.bootstrap_servers, moldau_topic)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    moldau_cluster.wait_for(topic=moldau_topic, records=2)
    write(moldau_cluster.bootstrap_servers, moldau_topic)

def test_an_address_is_good_in_a_child(moldau_cluster):
    child = os.fork()
    if child == 0:
        os._exit(0 if moldau_cluster.bootstrap_servers.startswith("127.0.0.1:") else 1)
    assert os.waitpid(child, 0)[1] == 0
""",
    "broken": """
from moldau.errors import InvariantError
from helpers import write

def test_breaks_a_rule(moldau_cluster):
    node = moldau_cluster._members[1].runtime.node

    async def break_a_rule():
        raise InvariantError("offsets out of order")

    moldau_cluster._members[1].runtime.call(lambda: node.broker.spawn(break_a_rule()))
    moldau_cluster.wait_for(lambda: not moldau_cluster.is_running)

def test_is_the_next(moldau_cluster, moldau_topic):
    write(moldau_cluster.bootstrap_servers, moldau_topic)
""",
}


def run_suite(directory: Path, name: str, *options: str) -> subprocess.CompletedProcess[str]:
    (directory / "helpers.py").write_text(WRITE)
    (directory / f"test_{name}.py").write_text(SUITES[name])
    (directory / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\npythonpath = .\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(directory)]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120, check=False)


def passes(directory: Path, name: str, passed: int, *options: str) -> None:
    result = run_suite(directory, name, *options)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{passed} passed" in result.stdout, result.stdout


@pytest.mark.slow
def test_a_plain_suite(tmp_path: Path) -> None:
    passes(tmp_path, "plain", 25)


@pytest.mark.slow
def test_four_workers_of_xdist(tmp_path: Path) -> None:
    passes(tmp_path, "plain", 25, "-n", "4")


@pytest.mark.slow
def test_a_marker_says_what_the_own_cluster_is_made_with(tmp_path: Path) -> None:
    passes(tmp_path, "marked", 4, "--strict-markers")


@pytest.mark.slow
def test_a_marker_that_does_nothing_is_refused(tmp_path: Path) -> None:
    result = run_suite(tmp_path, "wrong_marker")
    assert result.returncode == 4
    assert "the marker moldau needs the fixture moldau_own_cluster" in result.stderr


@pytest.mark.slow
def test_pytest_asyncio(tmp_path: Path) -> None:
    passes(tmp_path, "asyncio", 2)


@pytest.mark.slow
def test_anyio(tmp_path: Path) -> None:
    passes(tmp_path, "anyio", 1, "-p", "no:asyncio")


@pytest.mark.slow
def test_unittest_in_pytest_and_alone(tmp_path: Path) -> None:
    passes(tmp_path, "unittest", 2)
    alone = subprocess.run(
        [sys.executable, "-m", "unittest", "-q", "test_unittest"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert alone.returncode == 0, alone.stderr


@pytest.mark.slow
def test_forks(tmp_path: Path) -> None:
    passes(tmp_path, "forked", 2)


@pytest.mark.slow
def test_a_mistaken_test_shows_its_own_line_and_the_sentence(tmp_path: Path) -> None:
    """No frame of the kit, of the broker or of the standard library is shown."""
    shown = run_suite(tmp_path, "mistaken").stdout
    assert f"{len(MISTAKES)} failed" in shown, shown
    for line, sentence in MISTAKES.items():
        assert re.search(rf"^> +{re.escape(line)}$", shown, re.MULTILINE), shown
        assert re.search(rf"^E +{re.escape(sentence)}", shown, re.MULTILINE), shown
    frames = re.findall(r"^(\S+\.py):\d+: ", shown, re.MULTILINE)
    assert set(frames) == {"test_mistaken.py"}, shown


@pytest.mark.slow
def test_a_broker_that_breaks_a_rule_fails_the_test_and_serves_the_next(tmp_path: Path) -> None:
    result = run_suite(tmp_path, "broken")
    assert result.returncode == 1
    assert "2 passed, 1 error" in result.stdout, result.stdout
    assert "InvariantError: offsets out of order" in result.stdout
    assert "raise InvariantError" in result.stdout  # the line of the trace that shows the place
    assert "ERROR at teardown of test_breaks_a_rule" in result.stdout
