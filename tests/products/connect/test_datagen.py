"""The data generator."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from moldau.connect.configuration import ConfigError
from moldau.connectors.datagen import DataGenerator
from moldau.testing.connect import ConnectorTask
from tests.support.connect_cluster import connect_cluster

ALL = (
    "b BOOLEAN, y TINYINT, s SHORT, i INT, l BIGINT, f FLOAT, d DOUBLE, m DECIMAL(12, 3), t STRING, x BINARY, "
    "a DATE, o TIMESTAMP, n TIMESTAMP_NTZ, r ARRAY<INT>, p MAP<STRING, INT>, q STRUCT<u: INT>"
)


def rows_of(**options: str) -> list[tuple[object, ...]]:
    """The rows of one task, in batches of 7."""
    source = DataGenerator(CaseInsensitiveDict({"rows.per.second": "0", **options}))
    reader = source.streamReader(source.schema())
    rows: list[tuple[object, ...]] = []
    place = reader.initialOffset()
    while (end := reader.latestOffset(place, ReadMaxRows(7))) != place:
        rows += [row for part in reader.partitions(place, end) for row in reader.read(part)]
        place = end
    return rows


def test_a_seed_gives_the_same_rows_also_in_parts() -> None:
    whole = rows_of(columns=ALL, limit="50", seed="3")
    parts = [rows_of(columns=ALL, limit="50", seed="3", part=str(part), parts="3") for part in range(3)]
    assert [len(one) for one in parts] == [17, 17, 16]
    assert [parts[row % 3][row // 3] for row in range(50)] == whole
    assert len({repr(row) for row in whole}) == 50
    assert rows_of(columns=ALL, limit="50", seed="4") != whole


def test_all_that_is_available_is_the_limit() -> None:
    source = DataGenerator(CaseInsensitiveDict({"rows.per.second": "0", "limit": "50000"}))
    reader = source.streamReader(source.schema())
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable()) == {"rows": 50_000}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"columns": "a VARIANT"}, "no values for variant"),
        ({"key.columns": "z"}, "The columns are id, name, amount, at"),
        ({"rows.per.second": "-1"}, "at least 0"),
    ],
)
def test_bad_settings_are_rejected(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        DataGenerator(CaseInsensitiveDict(options)).schema()


def test_rows_come_at_the_rate_and_go_on_after_a_stop() -> None:
    with connect_cluster() as cluster:
        topic = cluster.create_topic("generated")
        config = {"connector.class": "moldau.connectors.datagen:DataGenerator", "topic": topic, "key.columns": "id"}
        config |= {"value.converter": "json", "value.converter.schemas.enable": "false", "key.converter": "long"}
        with ConnectorTask(cluster, config | {"rows.per.second": "50"}) as task:
            task.wait_for(lambda: task.progress.get("records", 0) > 20)
        with ConnectorTask(cluster, config | {"rows.per.second": "0", "limit": "500"}) as task:
            task.wait_until_idle()
        records = list(cluster.records(topic))
    expected = rows_of(limit="500")
    assert [json.loads(record.value or b"")["name"] for record in records] == [row[1] for row in expected]
    assert [int.from_bytes(record.key or b"", "big") for record in records] == [row[0] for row in expected]
