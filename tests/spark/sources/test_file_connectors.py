"""The connectors of files on Spark: the same class as in the light task."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.connectors.files.connectors import Files

COLUMNS = "id BIGINT, name STRING"


def lines_in(folder: Path) -> list[str]:
    return sorted(line for one in folder.glob("part-*") for line in one.read_text().splitlines())


@pytest.mark.slow
def test_a_growing_file_goes_to_files_over_a_restart(spark, tmp_path: Path) -> None:
    spark.dataSource.register(Files)
    source, target = tmp_path / "in.jsonl", tmp_path / "out"
    source.write_text('{"id":1,"name":"a"}\n{"id":2,"na')
    target.mkdir()
    for more, expected in (("", 1), ('me":"b"}\n{"id":3}\n', 3)):
        with source.open("a") as file:
            file.write(more)
        rows = spark.readStream.format("files").options(path=str(source), format="json", columns=COLUMNS).load()
        writing = rows.writeStream.format("files").options(path=str(target), format="json")
        query = writing.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        assert len(lines_in(target)) == expected
    assert lines_in(target) == ['{"id":1,"name":"a"}', '{"id":2,"name":"b"}', '{"id":3,"name":null}']
