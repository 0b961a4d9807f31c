"""Topics of brokers with TLS and logins, as source and sink: tasks log in, and no option or file of Spark has the
secret."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.client.protocol.access import ClusterAccess
from moldau.columnar import read_topic
from moldau.testing import Cluster

PASSWORD = "planted-in-a-file-alone"
ROWS = 500
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(security="sasl_ssl", users={"alice": PASSWORD}) as running:
        yield running


@pytest.fixture
def options(cluster: Cluster, tmp_path: Path) -> dict[str, str]:
    """As alice, with the password in a file."""
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    properties = cluster.client_properties("alice")
    properties["sasl.jaas.config"] = properties["sasl.jaas.config"].replace(
        PASSWORD, f"${{directory:{tmp_path}:password}}"
    )
    return {f"kafka.{name}": text for name, text in properties.items()}


def values_of(access: ClusterAccess, topic: str) -> list[int]:
    return sorted(int(value) for batch in read_topic(access, topic) for value in batch.column("value").to_pylist())


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_rows_go_in_and_out(spark, cluster: Cluster, options: dict[str, str], tmp_path: Path, delivery: str) -> None:
    first, second = cluster.topic(partitions=2), cluster.topic(partitions=2)
    rows = spark.range(ROWS).selectExpr("cast(id as string) as value").coalesce(1)
    to = rows.write.format("moldau").options(**options).option("delivery", delivery)
    to.option("topic", first).mode("append").save()
    read = spark.read.format("moldau").options(**options).option("subscribe", first).load()
    assert read.count() == ROWS

    stream = spark.readStream.format("moldau").options(**options).option("subscribe", first)
    stream = stream.option("startingOffsets", "earliest").option("kafka.group.id", "shown").load().select("value")
    checkpoint = tmp_path / "checkpoint"
    query = stream.coalesce(1).writeStream.format("moldau").options(**options).option("topic", second)
    query = query.option("delivery", delivery).option("checkpointLocation", str(checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()

    assert values_of(cluster.access("alice"), second) == list(range(ROWS))
    files = [path for path in checkpoint.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if PASSWORD.encode() in path.read_bytes()]


def test_a_secret_in_an_option_is_refused_before_a_broker_is_asked(spark, cluster: Cluster) -> None:
    literal = {f"kafka.{name}": text for name, text in cluster.client_properties("alice").items()}
    with pytest.raises(Exception, match=r"'kafka\.sasl\.jaas\.config' holds a secret itself") as refused:
        spark.read.format("moldau").options(**literal).option("subscribe", "a").load()
    assert PASSWORD not in str(refused.value)


def test_a_file_that_tasks_do_not_find_is_named(spark, cluster: Cluster, options: dict[str, str]) -> None:
    topic = cluster.topic()
    Path(options["kafka.sasl.jaas.config"].split("${directory:")[1].split(":")[0], "password").unlink()
    with pytest.raises(Exception, match=r"sasl\.password: cannot read .*/password: No such file"):
        spark.read.format("moldau").options(**options).option("subscribe", topic).load().count()
