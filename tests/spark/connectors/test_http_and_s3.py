"""The connectors `http` and `s3` on Spark: the classes of the light task as source and target of a pipeline."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import pyarrow.parquet as pq
import pytest

from moldau.cli.main import main
from tests.support.http_records import RecordServer
from tests.support.object_store import Bucket

HTTP, S3 = "moldau.connectors.http.connector:Http", "moldau.connectors.s3.connector:S3"


@pytest.fixture
def server() -> Iterator[RecordServer]:
    with RecordServer(page=50).running() as server:
        yield server


@pytest.fixture
def run(spark: object, tmp_path: Path, bootstrap_servers: str, capsys: pytest.CaptureFixture[str]):
    def run_spec(text: str) -> None:
        file = tmp_path / "spec.yaml"
        file.write_text(f"bootstrap_servers: {bootstrap_servers}\ncheckpoint: {tmp_path}/checkpoint\n{text}", "utf-8")
        code = main(["pipeline", "run", str(file), "--once"])
        assert code == 0, capsys.readouterr().err

    return run_spec


@pytest.mark.slow
def test_from_an_http_server_into_a_bucket_twice(
    run: Callable[[str], None], server: RecordServer, bucket: Bucket, store_server: str
) -> None:
    spec = f"""
name: http-to-s3
source:
  datasource: {HTTP}
  options:
    url: {server.url}/token
    columns: id BIGINT, name STRING
    records.pointer: /data
    cursor.param: after
    cursor.pointer: /next
    poll.interval.ms: "1"
sql: select id, name, id % 2 as half from source
sink:
  datasource: {S3}
  options:
    bucket: {bucket.name}
    endpoint: {store_server}
    access.key.id: moldau
    secret.access.key: secret
    partition.fields: half
"""
    for added in (120, 30):
        server.add(added)
        run(spec)
    client = boto3.client("s3", region_name="us-east-1")
    keys = [one["Key"] for one in client.list_objects_v2(Bucket=bucket.name)["Contents"]]
    rows = [
        row | {"folder": key.partition("/")[0]}
        for key in keys
        for row in pq.read_table(
            io.BytesIO(client.get_object(Bucket=bucket.name, Key=key)["Body"].read()), partitioning=None
        ).to_pylist()
    ]
    assert sorted(row["id"] for row in rows) == list(range(150))
    assert all(row["folder"] == f"half={row['id'] % 2}" for row in rows)


@pytest.mark.slow
def test_from_a_topic_to_an_http_server(
    run: Callable[[str], None], server: RecordServer, new_topic: Callable[..., str], produce: Callable[..., None]
) -> None:
    topic = new_topic()
    produce(topic, [(None, json.dumps({"n": number}).encode()) for number in range(25)])
    spec = f"""
name: topic-to-http
source: {{topic: {topic}, format: json, schema: "n int"}}
sql: select n, n * 2 as twice from source
sink: {{datasource: "{HTTP}", options: {{url: "{server.url}/in", batch.max.size: "10"}}}}
"""
    run(spec)
    rows = [json.loads(line) for _, body in server.taken for line in body.splitlines()]
    assert sorted(rows, key=str) == sorted(({"n": n, "twice": 2 * n} for n in range(25)), key=str)
    names = [headers["Idempotency-Key"] for headers, _ in server.taken]
    assert len(set(names)) == len(names)
    produce(topic, [(None, b'{"n": 77}')])
    server.refuses = '"n":77,'
    with pytest.raises(AssertionError, match="row 1 of the batch was rejected"):
        run(spec)
