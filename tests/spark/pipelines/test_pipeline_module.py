"""Runs a pipeline as a Python module: features of Spark's DataFrames that a pipeline's SQL lacks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from rich.console import Console

from moldau.cli.main import main
from moldau.columnar.reader import read_topic
from moldau.products.pipelines.core.failures import PipelineFailedError
from moldau.products.pipelines.running.runner import run_pipeline
from moldau.products.pipelines.spec.spec import load_spec
from tests.exactly_once.pipeline_driver import POINTS

LIFE_S = 400
"""The time limit of a driver that hangs, far above what one needs."""

MODULE = """
from collections.abc import Iterator

import pandas as pd
from pyspark import pipelines as dp
from pyspark.sql.functions import col, expr, pandas_udf, session_window
from pyspark.sql.types import DoubleType

from moldau.spark.pipelines import pipeline, source

AT = "2026-01-01T00:%s:00Z"
pipeline("shop", bootstrap_servers="127.0.0.1:1", tests={
    "visits end after five minutes of silence": {
        "given": {"clicks": [
            [{"user": "ann", "at": AT % minute} for minute in ("00", "03", "20", "22")],
            [{"user": "bob", "at": AT % "59"}],
        ]},
        "expect": {"visits": [{"user": "ann", "clicks": 2}, {"user": "ann", "clicks": 2}]},
    },
    "an order meets its payment within ten minutes": {
        "given": {
            "clicks": [{"user": "ann", "at": AT % "00", "paid": 1}, {"user": "bob", "at": AT % "00", "paid": 2}],
            "payments": [{"user": "ann", "at": AT % "07"}, {"user": "bob", "at": AT % "30"}],
        },
        "expect": {"met": [{"user": "ann", "paid": 1}]},
    },
    "a model scores whole columns": {
        "given": {"clicks": [{"user": "ann", "paid": 3}]},
        "expect": {"scored": [{"user": "ann", "score": 9.0}]},
    },
    "state is what the function makes it": {
        "given": {"clicks": [[{"user": "ann"}, {"user": "bob"}], [{"user": "ann"}]]},
        "expect": {"numbered": [{"user": "ann", "n": 1}, {"user": "bob", "n": 1}, {"user": "ann", "n": 2}]},
    },
})
for name in ("clicks", "payments"):
    source(name, topic=name, format="json", schema="user string, paid int, at timestamp", event_time="at",
           watermark="1 minute")


@dp.table(format="parquet")
def visits():
    return spark.readStream.table("clicks").groupBy(session_window("at", "5 minutes"), "user").agg(
        expr("count(*) as clicks"))


@dp.table(format="parquet")
def met():
    clicks, payments = spark.readStream.table("clicks").alias("c"), spark.readStream.table("payments").alias("p")
    near = expr("c.user = p.user and p.at between c.at and c.at + interval 10 minutes")
    return clicks.join(payments, near).select("c.user", "c.paid")


@pandas_udf(DoubleType())
def model(paid: pd.Series) -> pd.Series:
    return paid * 3.0


@dp.table(format="parquet")
def scored():
    return spark.readStream.table("clicks").select("user", model(col("paid")).alias("score"))


def count(key, rows, state) -> Iterator[pd.DataFrame]:
    (n,) = state.get if state.exists else (0,)
    n += sum(len(one) for one in rows)
    state.update((n,))
    yield pd.DataFrame({"user": [key[0]], "n": [n]})


dp.create_sink("numbered", "topic", {"topic": "numbered", "mode": "update"})


@dp.append_flow(target="numbered")
def numbers():
    return spark.readStream.table("clicks").groupBy("user").applyInPandasWithState(
        count, "user string, n bigint", "n bigint", "update", "NoTimeout")
"""


@pytest.mark.slow
def test_windows_joins_models_and_state_pass_their_tests_offline(spark, tmp_path: Path, capsys):
    module = tmp_path / "shop.py"
    module.write_text(MODULE, "utf-8")
    code = main(["pipeline", "test", str(module)])
    assert code == 0, capsys.readouterr().out


STATEFUL = """
from pyspark import pipelines as dp
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from moldau.spark.pipelines import pipeline, source

pipeline("shop", bootstrap_servers="127.0.0.1:1", tests={
    "each user has a count of its own, from one batch to the next": {
        "given": {"clicks": [[{"user": "ann"}, {"user": "bob"}], [{"user": "ann"}]]},
        "expect": {"counts": [{"user": "ann", "n": 1}, {"user": "bob", "n": 1}, {"user": "ann", "n": 2}]},
    },
})
source("clicks", topic="clicks", format="json", schema="user string")


class Count(StatefulProcessor):
    def init(self, handle):
        self.n = handle.getValueState("n", "n bigint")

    def handleInputRows(self, key, rows, timers):
        n = (self.n.get()[0] if self.n.exists() else 0) + sum(1 for _ in rows)
        self.n.update((n,))
        yield Row(user=key[0], n=n)

    def close(self):
        pass


dp.create_sink("counts", "topic", {"topic": "counts", "mode": "update"})


@dp.append_flow(target="counts")
def count():
    return spark.readStream.table("clicks").groupBy("user").transformWithState(
        Count(), "user string, n bigint", "Update", "None")
"""


@pytest.mark.slow
def test_a_stateful_processor_keeps_its_state_in_rocksdb(spark, tmp_path: Path, capsys):
    pytest.importorskip("google.protobuf", reason="Spark's transformWithState talks to its workers in it")
    module = tmp_path / "shop.py"
    module.write_text(STATEFUL, "utf-8")
    before = spark.conf.get("spark.sql.streaming.stateStore.providerClass")
    assert main(["pipeline", "test", str(module)]) == 0, capsys.readouterr().out
    assert spark.conf.get("spark.sql.streaming.stateStore.providerClass") == before


@pytest.mark.slow
def test_a_module_runs_like_a_pipeline_and_a_changed_function_is_refused(
    spark, new_topic, new_name, produce, bootstrap_servers, tmp_path: Path, capsys
):
    orders, totals, name = new_topic(), new_topic(), new_name("module").replace(".", "-")
    produce(orders, [(None, json.dumps({"user": "ann", "amount": amount}).encode()) for amount in (5, 120, 300)])
    text = f'''
from pyspark import pipelines as dp
from moldau.spark.pipelines import pipeline, source

pipeline("{name}", bootstrap_servers="{bootstrap_servers}", checkpoint="state")
source("orders", topic="{orders}", format="json", schema="user string, amount double")

@dp.table(format="parquet")
def big():
    return spark.readStream.table("orders").where("amount >= 100")

dp.create_sink("totals", "kafka", {{"topic": "{totals}", "key": "user", "mode": "update"}})

@dp.append_flow(target="totals")
def sums():
    return spark.readStream.table("big").groupBy("user").sum("amount").toDF("user", "amount")
'''
    module = tmp_path / "shop.py"
    module.write_text(text, "utf-8")
    assert main(["pipeline", "plan", str(module)]) == 0
    assert f"{name}.totals: begins; 3 records wait\n  user string, amount double" in capsys.readouterr().out
    with open(os.devnull, "w") as nowhere:
        states = run_pipeline(load_spec(module), once=True, console=Console(file=nowhere))
    assert [(state.name, state.state, state.lag) for state in states] == [
        (f"{name}.big", "finished", 0),
        (f"{name}.totals", "finished", 0),
    ]
    assert sorted(row["amount"] for row in pq.read_table(tmp_path / "tables" / "big").to_pylist()) == [120, 300]
    (row,) = [row for batch in read_topic(bootstrap_servers, totals) for row in batch.column("value").to_pylist()]
    assert json.loads(row) == {"user": "ann", "amount": 420}
    assert main(["pipeline", "preview", str(module), "big", "--rows", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["amount"] == 120
    module.write_text(text.replace("amount >= 100", "amount >= 50"), "utf-8")
    assert main(["pipeline", "run", str(module), "--once"]) == 1
    assert "`flows.big` of pipeline" in capsys.readouterr().err
    module.write_text(text.replace('"amount >= 100"', "nothing"), "utf-8")
    assert main(["pipeline", "plan", str(module)]) == 1
    assert "shop.py:8: `flows.big`: shop.py:10: NameError: name 'nothing'" in capsys.readouterr().err


CHANGES = """
from pyspark import pipelines as dp

from moldau.spark.pipelines import pipeline, source

pipeline("{name}", bootstrap_servers="{servers}", checkpoint="state")
source("raw", topic="{topic}", format="json", schema="id int, name string, version int, op string")


@dp.temporary_view
def changes():
    return spark.readStream.table("raw").where("id is not null")


dp.create_streaming_table("users")
dp.create_auto_cdc_flow(
    target="users",
    source="changes",
    keys=["id"],
    sequence_by="struct(version, op)",
    apply_as_deletes="op = 'd'",
    column_list=["id", "name"],
)
"""

Change = tuple[int, str, int, str]


@pytest.fixture
def changed(new_topic, new_name, produce, bootstrap_servers, tmp_path: Path):
    """A module that makes a table from changes, which `changed.send` sends."""

    class Changed:
        module = tmp_path / "mirror.py"
        table = tmp_path / "tables" / "users"
        topic = new_topic()

        def send(self, *changes: Change) -> None:
            names = ("id", "name", "version", "op")
            rows = [json.dumps(dict(zip(names, change, strict=True))).encode() for change in changes]
            produce(self.topic, [(None, row) for row in rows])

        def rows(self) -> list[tuple[int, str]]:
            found = DeltaTable(self.table).to_pyarrow_table().to_pylist()
            return sorted((row["id"], row["name"]) for row in found)

    made = Changed()
    name = new_name("mirror").replace(".", "-")
    made.module.write_text(CHANGES.format(name=name, servers=bootstrap_servers, topic=made.topic), "utf-8")
    return made


@pytest.mark.slow
def test_changes_make_the_table_in_any_order_and_a_repeated_batch_changes_nothing(spark, changed, tmp_path: Path):
    def run() -> None:
        with open(os.devnull, "w") as nowhere:
            run_pipeline(load_spec(changed.module), once=True, console=Console(file=nowhere))

    changed.send((1, "a", 1, "u"), (2, "b", 1, "u"), (1, "A", 3, "u"), (3, "gone before it came", 5, "d"))
    run()
    assert changed.rows() == [(1, "A"), (2, "b")]
    changed.send((1, "older than A", 2, "u"), (2, "b", 4, "d"), (4, "d", 1, "u"), (1, "as old as A", 3, "i"))
    run()
    assert changed.rows() == [(1, "A"), (4, "d")]
    version, commits = DeltaTable(changed.table).version(), tmp_path / "state" / "users" / "commits"
    (commits / "1").unlink()  # the batch is in the table, but Spark does not know it
    changed.send((2, "older than its end", 2, "u"), (3, "older than its end", 4, "u"))
    run()
    assert (commits / "1").exists()
    assert (commits / "2").exists()
    assert changed.rows() == [(1, "A"), (4, "d")]
    assert DeltaTable(changed.table).version() == version
    changed.send((2, "back", 6, "u"))
    run()
    assert changed.rows() == [(1, "A"), (2, "back"), (4, "d")]


@pytest.mark.slow
def test_changes_that_a_killed_driver_wrote_are_not_written_again(spark, changed):
    """The batch is in the table, but Spark has not recorded its end: the next driver begins with it."""
    changed.send((1, "a", 1, "u"), (1, "A", 3, "u"), (2, "b", 4, "d"))
    command = [sys.executable, "-m", "tests.exactly_once.pipeline_driver", str(changed.module), "--point", POINTS[2]]
    life = subprocess.run(command, capture_output=True, text=True, timeout=LIFE_S, check=False)
    assert life.returncode == -signal.SIGKILL, life.stderr[-4_000:]
    assert changed.rows() == [(1, "A")]
    version = DeltaTable(changed.table).version()
    changed.send((1, "older than A", 2, "u"), (2, "older than its end", 2, "u"), (3, "c", 1, "u"))
    with open(os.devnull, "w") as nowhere:
        run_pipeline(load_spec(changed.module), once=True, console=Console(file=nowhere))
    assert changed.rows() == [(1, "A"), (3, "c")]
    assert DeltaTable(changed.table).version() == version + 1


FAILING = """
import pandas as pd
from pyspark import pipelines as dp
from pyspark.sql.functions import pandas_udf
from pyspark.sql.types import DoubleType

from moldau.spark.pipelines import pipeline, source

pipeline("{name}", bootstrap_servers="{servers}")
source("numbers", topic="{topic}", format="json", schema="n int")


@pandas_udf(DoubleType())
def inverse(n: pd.Series) -> pd.Series:
    return n.map(lambda one: 1 / one)


@dp.table(format="parquet")
def inverses():
    return spark.readStream.table("numbers").select(inverse("n").alias("inverse"))
"""


@pytest.mark.slow
def test_a_failure_in_a_function_names_its_line_and_the_record_that_failed(
    spark, new_topic, new_name, produce, bootstrap_servers, tmp_path: Path
):
    topic, module = new_topic(), tmp_path / "inverses.py"
    module.write_text(FAILING.format(name=new_name("zero"), servers=bootstrap_servers, topic=topic), "utf-8")
    produce(topic, [(None, b'{"n":1}'), (None, b'{"n":0}')])
    with open(os.devnull, "w") as nowhere, pytest.raises(PipelineFailedError) as failure:
        run_pipeline(load_spec(module), once=True, console=Console(file=nowhere), retry_first_seconds=0.01)
    told = f"ZeroDivisionError: division by zero; in {module}:15; in batch 0, at the record {topic}-0 offset 1"
    assert str(failure.value).endswith(told)
