"""The examples of README.md, docs/use and docs/reference/pipelines that need Spark run as written."""

from __future__ import annotations

import json
import shlex
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import polars
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from moldau.cli.main import main
from moldau.testing import Cluster
from moldau.testing.pipelines import pipeline_tests
from tests.cluster.guides import ADDRESS, OTHER_ADDRESSES, REGISTRY, Block, blocks
from tests.support.schema_registry import SchemaRegistry

ALL = [block for block in blocks() if block.needs_spark]


TRIP = {
    "title": "Trip",
    "type": "object",
    "properties": {
        "user": {"type": "string"},
        "place": {"type": "object", "properties": {"town": {"type": "string"}}},
        "at": {"type": "string", "format": "date-time"},
    },
}
DATA_SOURCE = "class Lines(DataSource)"
"""In the block that is a module of targets."""
INVOICE = """
syntax = "proto3";
message Invoice { string user = 1; double amount = 2; }
"""


def of(language: str, *, page: str = "") -> list[Block]:
    return [block for block in ALL if block.language == language and page in block.page]


def modules() -> list[str]:
    """The blocks that are pipelines."""
    return [block.text for block in of("python") if "@dp." in block.text]


@pytest.fixture
def others() -> Iterator[list[Cluster]]:
    """The clusters next to that of the examples, with topics, one of which has a record."""
    with ExitStack() as stack:
        clusters = [stack.enter_context(Cluster()) for _ in OTHER_ADDRESSES]
        for cluster in clusters:
            cluster.create_topic("returns")
        clusters[0].produce("returns", "a shoe")
        yield clusters


@pytest.fixture
def registry(bootstrap_servers: str) -> Iterator[str]:
    registry = SchemaRegistry(bootstrap_servers, "_schemas_of_the_guide")
    yield registry.url
    registry.close()


def send_payments_and_trips(bootstrap_servers: str, registry: str, schema: str) -> None:
    """As Confluent's serializers write them; and the schema of the Protobuf output. `schema`: of payments."""
    client = SchemaRegistryClient({"url": registry})
    client.register_schema("invoices-value", Schema(INVOICE, "PROTOBUF"))
    serialize = AvroSerializer(client, schema)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for amount in ("12.50", "-3.00"):
        row = {"user": "ann", "amount": Decimal(amount), "at": datetime(2026, 1, 1, tzinfo=UTC)}
        producer.produce("payments", serialize(row, SerializationContext("payments", MessageField.VALUE)))
    trip = {"user": "ann", "place": {"town": "Brno"}, "at": "2026-01-01T00:00:00Z"}
    in_json = JSONSerializer(json.dumps(TRIP), client)(trip, SerializationContext("trips", MessageField.VALUE))
    producer.produce("trips", in_json)
    assert producer.flush(30) == 0


def test_a_spark_program_runs(
    spark: object,
    new_topic: Callable[..., str],
    produce: Callable[..., None],
    read_back: Callable[[str], list[tuple[bytes | None, bytes | None]]],
    bootstrap_servers: str,
    tmp_path: Path,
) -> None:
    """In this session: `getOrCreate` gives the existing one."""
    topic, copy = new_topic(), new_topic(2)
    produce(topic, [(b"k", b"v")])
    others = ("pytest", "@dp.", DATA_SOURCE)
    programs = [block for block in of("python") if not any(word in block.text for word in others)]
    assert programs
    for block in programs:
        source = block.text.replace(ADDRESS, bootstrap_servers).replace('"orders"', f'"{topic}"')
        source = source.replace('"copy"', f'"{copy}"').replace('"checkpoints', f'"{tmp_path}')
        names: dict[str, object] = {}
        exec(compile(source, block.id, "exec"), names)
        assert "orders" in names
    assert read_back(copy) == [(b"k", b"v")]


@pytest.mark.slow
def test_the_pipelines_of_the_guide_run_and_their_lag_is_shown(
    spark: object,
    new_topic: Callable[..., str],
    read_back: Callable[[str], list[tuple[bytes | None, bytes | None]]],
    bootstrap_servers: str,
    registry: str,
    others: list[Cluster],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each pipeline file of the guide and of its reference, with each command, in order. In this process and its
    session: another session costs half a minute of two cores."""
    for topic in ("payments", "invoices", "trips", "returns"):
        new_topic(name=topic)
    (avro,) = of("json")
    (tmp_path / "payment.avsc").write_text(avro.text, encoding="utf-8")
    send_payments_and_trips(bootstrap_servers, registry, avro.text)
    for spec in of("yaml", page="pipelines"):
        text = spec.text.replace(ADDRESS, bootstrap_servers).replace(REGISTRY, registry)
        for address, cluster in zip(OTHER_ADDRESSES, others, strict=True):
            text = text.replace(address, cluster.bootstrap_servers)
        name = text.partition("\n")[0].removeprefix("name: ")
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    for name in ("visits", "latest"):
        (module,) = [text for text in modules() if f'pipeline("{name}"' in text]
        (tmp_path / f"{name}.py").write_text(module.replace(ADDRESS, bootstrap_servers), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for line in "".join(block.text for block in of("sh", page="pipelines")).splitlines():
        words = shlex.split(line, comments=True)
        assert words[0] == "moldau", line
        address = [] if words[1] == "pipeline" else ["-b", bootstrap_servers]
        code = main([*words[1:], *address])
        said = capsys.readouterr()
        assert code == 0, line + said.out + said.err
        if words[1] == "consume":
            assert "no JSON" in said.out  # the values that did not parse are kept
    (tests,) = [block.text for block in of("python") if "pytest" in block.text]
    names: dict[str, Callable[[object], None]] = {}
    exec(compile(tests, "guide", "exec"), names)
    for case in pipeline_tests("minutes.yaml"):
        names["test_minutes"](case)
    assert polars.read_delta(str(tmp_path / "lake" / "orders")).select("user", "amount").rows() == [("ann", 2.5)]
    assert polars.read_delta(str(tmp_path / "tables" / "users")).rows() == [("ann", 2.5)]
    with sqlite3.connect(tmp_path / "out" / "users.db") as connection:
        assert connection.execute("select * from history_of_users").fetchall() == [("ann", 2.5, 0, None)]
    assert pq.read_table(tmp_path / "out" / "with_city").to_pylist() == [{"user": "ann", "amount": 2.5, "city": None}]
    assert pq.read_table(tmp_path / "out" / "paid").to_pylist() == [
        {"user": "ann", "amount": Decimal("12.50"), "at": datetime(2026, 1, 1, tzinfo=UTC)}
    ]
    assert pq.read_table(tmp_path / "out" / "trips").to_pylist() == [
        {"user": "ann", "town": "Brno", "at": datetime(2026, 1, 1, tzinfo=UTC)}
    ]
    assert [value for _, value in read_back("returns")] == [b"a shoe"]
    assert [record.value for record in others[1].records("returns")] == [b"a shoe"]
    ((key, value),) = read_back("invoices")
    assert (key, value[:1], value[5:]) == (b"ann", b"\0", b"\0\n\x03ann\x11" + struct.pack("<d", 2.5))


@pytest.mark.slow
def test_the_queries_of_the_guide_pass_their_tests(
    spark: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for spec in of("yaml", page="pipeline-queries.md"):
        Path(f"{spec.text.partition(chr(10))[0].removeprefix('name: ')}.yaml").write_text(spec.text, encoding="utf-8")
    (module,) = [text for text in modules() if '"first-payments"' in text]
    Path("first-payments.py").write_text(module, encoding="utf-8")
    lines = "".join(block.text for block in of("sh", page="pipeline-queries.md")).splitlines()
    files = [line.removeprefix("moldau pipeline test ") for line in lines]
    assert sorted(files) == sorted(path.name for path in tmp_path.iterdir())
    assert main(["pipeline", "test", *files]) == 0, capsys.readouterr().out
    assert capsys.readouterr().out.count(": passed (") == len(files)


def test_a_class_of_the_reader_s_own_is_target_and_source(
    spark: object,
    new_topic: Callable[..., str],
    produce: Callable[..., None],
    read_back: Callable[[str], list[tuple[bytes | None, bytes | None]]],
    bootstrap_servers: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (module,) = [block.text for block in of("python") if DATA_SOURCE in block.text]
    (tmp_path / "lines.py").write_text(module, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    orders, lines = new_topic(), new_topic()
    writes, reads = of("yaml", page="pipeline-targets.md")
    for name, block in (("as-lines", writes), ("from-lines", reads)):
        text = block.text.replace(ADDRESS, bootstrap_servers).replace("topic: orders", f"topic: {orders}")
        text = text.replace("topic: lines", f"topic: {lines}").replace("/tmp/lines", f"{tmp_path}/out")
        Path(f"{name}.yaml").write_text(text, encoding="utf-8")
    (commands,) = of("sh", page="pipeline-targets.md")
    for amount in (b"2.5", b"3.5"):
        produce(orders, [(None, b'{"user": "ann", "amount": %s}' % amount)])
        for line in (*commands.text.splitlines(), "moldau pipeline run from-lines.yaml --once"):
            assert main(line.split()[1:]) == 0, capsys.readouterr().err
    assert "exactly once, as its class says" in capsys.readouterr().out
    assert [value for _, value in read_back(lines)] == [
        b'{"user": "ann", "amount": 2.5}',
        b'{"user": "ann", "amount": 3.5}',
    ]
    Path("as-lines.yaml").write_text(Path("as-lines.yaml").read_text("utf-8").replace(":Lines", ":Line"), "utf-8")
    assert main(commands.text.splitlines()[-1].split()[1:]) == 1
    assert "lines has no Line, did you mean Lines?" in capsys.readouterr().err


@pytest.mark.slow
def test_the_pipeline_of_the_readme_passes_its_test(spark, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = [one for one in blocks() if one.page == "README.md" and one.language == "yaml"]
    file = tmp_path / "shop.yaml"
    file.write_text(block.text, encoding="utf-8")
    assert main(["pipeline", "test", str(file)]) == 0
    assert ": only big orders count: passed (" in capsys.readouterr().out
