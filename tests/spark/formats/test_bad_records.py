"""A record that cannot be read or written: the error names it, and no record of its batch is committed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moldau.client.admin.transactions import describe_transaction
from moldau.client.blocking.offsets import committed_offsets
from moldau.client.protocol.access import ClusterAccess
from moldau.errors import MoldauError
from moldau.testing import Cluster
from moldau.transport.access import open_admin
from tests.support.hostile_batches import GZIP, batch_of, record
from tests.support.wire import RawConnection
from tests.support.wire_produce import batch
from tests.support.wire_produce import produce as produce_bytes

ORIGIN = ("topic as _topic", "partition as _partition", "offset as _offset")
HINT = "give the rows the columns _topic, _partition and _offset"
SMALL = {"max.message.bytes": "2000"}
BAD_ROWS = [
    # how the target is made, the bad one of three records, the sink's rows, the error
    pytest.param({"cleanup.policy": "compact"}, (None, b"0"), (), "cannot accept message without key", id="null key"),
    pytest.param(SMALL, (b"k", b"x" * 3_000), (), "larger than max.message.bytes", id="too large"),
    pytest.param(
        {}, (b"k", b"1"), ("if(value = '1', 'never-made', '{target}') as topic",), "never-made", id="unknown topic"
    ),
    pytest.param(
        {}, (b"k", b"9"), ("cast(cast(value as string) as int) as partition",), "no partition 9", id="unknown partition"
    ),
]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def bootstrap_servers(data_dir: Path) -> Iterator[str]:
    """A broker that creates no topic by itself, and whose files can be damaged."""
    with Cluster(data_dir=data_dir, settings={"auto.create.topics.enable": False}) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def assert_aborted(bootstrap_servers: str) -> Iterator[Callable[[str], None]]:
    """`assert_aborted(name)`: that transactional id has no open transaction, and its group no offset."""
    times = {"connect_timeout_ms": 5_000, "request_timeout_ms": 5_000, "retry_timeout_ms": 5_000}
    admin = open_admin(ClusterAccess(bootstrap_servers, client_id="test", **times))

    def check(name: str) -> None:
        while (found := describe_transaction(admin, name)).state == "PrepareAbort":
            pass
        assert (found.state, found.partitions) in (("CompleteAbort", ()), ("Empty", ()))
        assert committed_offsets(admin.client, name) == {}

    yield check
    admin.client.close()


@pytest.fixture
def copy(spark, bootstrap_servers: str, tmp_path: Path) -> Callable[..., None]:
    """`copy(source, *rows, **options)` runs a stream in one task until it ends or fails."""

    def run(source: str, *rows: str, **options: str) -> None:
        stream = spark.readStream.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers)
        frame = stream.option("subscribe", source).option("startingOffsets", "earliest").load()
        writer = frame.selectExpr(*rows).coalesce(1).writeStream.format("moldau").options(**options)
        writer = writer.option("kafka.bootstrap.servers", bootstrap_servers)
        query = writer.option("checkpointLocation", str(tmp_path / "copy")).trigger(availableNow=True).start()
        query.awaitTermination()

    return run


def transactional_id(tmp_path: Path) -> str:
    return "moldau-" + str(json.loads((tmp_path / "copy" / "metadata").read_text())["id"])


@pytest.mark.slow
@pytest.mark.parametrize(("config", "bad", "rows", "refused"), BAD_ROWS)
def test_a_row_that_cannot_be_written_is_named_and_its_batch_aborted(
    copy, new_topic, produce, read_back, assert_aborted, tmp_path, config, bad, rows, refused
):
    source, target = new_topic(), new_topic(**config)
    produce(source, [(b"k", b"0"), bad, (b"k", b"0")])
    given = [row.format(target=target) for row in rows]
    options = {} if any(row.endswith(" topic") for row in given) else {"topic": target}
    for origin, said in ((ORIGIN, f"the input record is {source}-0 at offset 1\\b"), ((), HINT)):
        with pytest.raises(Exception, match=f"(?s){refused}.*{said}"):
            copy(source, "key", "value", *given, *origin, **options)
        assert read_back(target) == []
        assert_aborted(transactional_id(tmp_path))


@pytest.mark.slow
def test_where_the_one_topic_of_a_sink_is_unknown_no_row_is_to_blame(copy, new_topic, produce):
    source = new_topic()
    produce(source, [(b"k", b"0")])
    with pytest.raises(Exception, match="never-made") as caught:
        copy(source, "key", "value", topic="never-made")
    assert HINT not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("option", [{"delivery": "at_least_once"}, {"write_id": "once"}])
@pytest.mark.parametrize(("origin", "said"), [(ORIGIN, "the input record is a-1 at offset 7"), ((), HINT)])
def test_a_batch_write_names_the_row_in_each_delivery(spark, new_topic, bootstrap_servers, option, origin, said):
    target = new_topic(**{"cleanup.policy": "compact"})
    frame = spark.sql("select cast(null as string) as key, 'x' as value, 'a' as topic, 1 as partition, 7L as offset")
    writer = frame.selectExpr("key", "value", *origin).write.format("moldau").options(topic=target, **option)
    with pytest.raises(Exception, match=f"(?s)message without key.*{said}"):
        writer.option("kafka.bootstrap.servers", bootstrap_servers).mode("append").save()


def flip_the_last_byte(data_dir: Path, topic: str) -> None:
    (segment,) = (data_dir / f"{topic}-0").glob("*.log")
    data = segment.read_bytes()
    segment.write_bytes(data[:-1] + bytes([data[-1] ^ 0xFF]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bad CRC", "no gzip", "cut record"])
def test_a_poisoned_batch_of_a_source_is_named_and_nothing_of_its_rows_is_committed(
    copy, new_topic, read_back, assert_aborted, bootstrap_servers, data_dir, tmp_path, kind
):
    source, target = new_topic(), new_topic()
    poison = {
        "bad CRC": bytes(batch(b"x", b"y")),
        "no gzip": batch_of(b"no gzip at all", 2, GZIP),
        "cut record": batch_of(record(0) + record(1, length=5), 2),
    }[kind]
    with RawConnection(bootstrap_servers) as raw:
        for records in (bytes(batch(b"0", b"1", b"2")), poison):
            assert produce_bytes(raw, source, records)[0] == 0
    if kind == "bad CRC":
        flip_the_last_byte(data_dir, source)
    with pytest.raises(Exception, match=rf"{source}-0: .*batch at offset 3\b"):
        copy(source, "value", topic=target)
    assert read_back(target) == []
    assert_aborted(transactional_id(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("is_selected", [True, False])
def test_a_pipeline_names_the_input_record_where_its_sql_selects_it(
    run_spec, new_topic, produce, read_back, is_selected
):
    source, target = new_topic(), new_topic(**SMALL)
    produce(source, [(b"k", b"0"), (b"k", b"x" * 3_000)])
    spec = f"source: {{topic: {source}, format: string}}\nsink: {{topic: {target}}}\n"
    columns = ", _topic, _partition, _offset" if is_selected else ""
    said = f"the input record is {source}-0 at offset 1" if is_selected else HINT
    with pytest.raises(MoldauError, match=f"(?s)max.message.bytes.*{said}"):
        run_spec(f"{spec}sql: select _key as key, value{columns} from source\n")
    assert read_back(target) == []


def test_text_goes_as_it_is_also_beside_the_columns_of_its_origin(run_spec, new_topic, produce, read_back):
    source, target = new_topic(), new_topic()
    produce(source, [(b"k", b"one")])
    sql = "select _key as key, value, _topic, _partition, _offset from source"
    run_spec(f"source: {{topic: {source}, format: string}}\nsink: {{topic: {target}}}\nsql: {sql}\n")
    assert read_back(target) == [(b"k", b"one")]
