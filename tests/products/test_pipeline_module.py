"""A pipeline as a Python module, with the names of `pyspark.pipelines`: read without Spark's JVM."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from moldau.cli.main import main
from moldau.products.pipelines.core.section import SpecError
from moldau.products.pipelines.spec.spec import describe, load_spec, parse_spec

MODULE = """\
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, lit, udf

from moldau.spark.pipelines import pipeline, source

spark = SparkSession.active()
LEAST = 100
pipeline("shop", bootstrap_servers="a:1", checkpoint="state", retry_timeout="${PATIENCE}")
source("orders", topic="orders", format="json", schema="user string, amount double", watermark="10 seconds")
source("users", topic="users", format="string", as_="table", refresh="1 minute")


@dp.temporary_view
def big():
    return orders().where(col("amount") >= LEAST)


@dp.table(format="parquet", table_properties={"path": "out/named"})
def named():
    return spark.table("big").join(spark.read.table("users"), col("user") == col("_key"))


dp.create_sink("totals", "kafka", {"topic": "totals", "key": "user", "mode": "update"})


@dp.append_flow(target="totals")
def per_user():
    return spark.sql("select user, sum(amount) as amount from big group by user")


def orders():
    # stands below the flow that calls it
    return spark.readStream.table("orders")
"""

SPEC = """\
name: shop
bootstrap_servers: a:1
checkpoint: state
retry_timeout: 1 minute
sources:
  orders: {topic: orders, format: json, schema: "user string, amount double", watermark: 10 seconds}
  users: {topic: users, format: string, as: table, refresh: 1 minute}
flows:
  big: select * from orders where amount >= 100
  named: select * from big join users on user = _key
  per_user: select user, sum(amount) as amount from big group by user
targets:
  named: {path: out/named}
  totals: {from: per_user, topic: totals, key: user, mode: update}
"""


@pytest.fixture
def load(tmp_path: Path):
    def load(text: str):
        path = tmp_path / "shop.py"
        path.write_text(text, "utf-8")
        return load_spec(path, {"PATIENCE": "1 minute"})

    return load


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def test_a_module_makes_the_plan_of_a_pipeline(load, tmp_path: Path):
    module = load(MODULE)
    spec = parse_spec(SPEC, file_name="shop.yaml", directory=tmp_path)
    assert describe(module) == describe(spec)
    assert [(one.name, one.place, one.reads) for one in module.plan.flows] == [
        (one.name, one.place, one.reads) for one in spec.plan.flows
    ]
    for ours, theirs in zip(module.queries, spec.queries, strict=True):
        assert (ours.name, ours.sources, ours.target, ours.checkpoint, ours.group, ours.transactional_id) == (
            theirs.name, theirs.sources, theirs.target, theirs.checkpoint, theirs.group, theirs.transactional_id
        )  # fmt: skip
        assert ours.step.facts().keys() == theirs.step.facts().keys()
    assert module.plan.flows[0].line == line_of(MODULE, "@dp.temporary_view")
    assert module.plan.targets[1].line == line_of(MODULE, "dp.create_sink")
    assert not {"shop", "__pipeline__"} & set(sys.modules)


def test_a_table_stands_beside_the_module_in_the_format_delta_unless_it_says_so(load, tmp_path: Path):
    spec = load(MODULE.replace('(format="parquet", table_properties={"path": "out/named"})', ""))
    assert describe(spec)["target named"].startswith(f"Delta table {tmp_path / 'tables' / 'named'} (append)")
    table = 'table(format="parquet", table_properties={"path": "out/named"})'
    spec = load(MODULE.replace(table, 'materialized_view(table_properties={"key": "user"})'))
    assert spec.queries[0].target.key == ("user",)
    spec = load(MODULE.replace(table, 'materialized_view(table_properties={"key": "user", "sequence_by": "version"})'))
    assert spec.queries[0].step.facts()["targets.named.sequence_by"] == "version"


def test_flows_are_made_in_loops_and_of_modules_beside_it(load, tmp_path: Path):
    (tmp_path / "regions.py").write_text(
        "def of(spark, region):\n    return spark.table('big').where(region)\n", "utf-8"
    )
    spec = load(
        MODULE
        + """
import regions
def make(region):
    @dp.table(name=f"in_{region}", format="parquet")
    def flow():
        return regions.of(spark, region)
for region in ("eu", "us"):
    make(region)
"""
    )
    assert [(one.name, one.reads) for one in spec.plan.flows][-2:] == [("in_eu", ("big",)), ("in_us", ("big",))]
    facts = [spec.queries[number].step.facts()[f"flows.in_{region}"] for number, region in ((2, "eu"), (3, "us"))]
    assert facts[0] != facts[1], "what a function finds around it is part of it"
    assert "regions" not in sys.modules


UNCHANGED = """\
from pyspark import pipelines as dp


@dp.materialized_view(table_properties={"key": "user"})
def totals():
    return spark.read.table("orders").groupBy("user").count()
"""
"""As it is in a project of Spark Declarative Pipelines, where `spark` is defined too."""


def test_a_module_of_a_project_of_spark_is_imported_as_it_is(load, tmp_path: Path):
    (tmp_path / "transformations.py").write_text(UNCHANGED, "utf-8")
    text = """\
from moldau.spark.pipelines import pipeline, source
pipeline("shop", bootstrap_servers="a:1")
source("orders", topic="orders", format="json", schema="user string")
import transformations
"""
    spec = load(text)
    assert [(flow.name, flow.reads, flow.line) for flow in spec.plan.flows] == [("totals", ("orders",), 4)]
    assert spec.files == (tmp_path / "shop.py", tmp_path / "transformations.py")
    assert spec.functions["totals"].__globals__["spark"] is not None
    (tmp_path / "transformations.py").write_text(UNCHANGED.replace('"orders"', '"or" + "ders"'), "utf-8")
    with pytest.raises(SpecError, match=r"shop\.py:4: totals calls `spark\.read\.table` without a name"):
        load(text)


def test_layout_and_comments_of_a_function_are_no_part_of_it_and_what_it_calls_is(load):
    facts = load(MODULE).queries[0].step.facts()
    assert load(MODULE.replace("# stands below", "# is far below")).queries[0].step.facts() == facts
    for before, after in (
        ("LEAST = 100", "LEAST = 99"),
        ('Stream.table("orders")', 'Stream.table("orders").limit(1)'),
    ):
        changed = load(MODULE.replace(before, after)).queries[0].step.facts()
        assert [name for name in facts if changed[name] != facts[name]] == ["flows.big"]


@pytest.mark.parametrize(
    ("before", "after", "at", "reason"),
    [
        ('spark.table("big").join', 'spark.table("bog").join', "@dp.table", r"`flows\.named` reads bog, .*mean big\?"),
        ('spark.table("big")', 'spark.table("b" + "ig")', 'spark.table("b"', r"named calls `spark\.table` without a"),
        ('target="totals"', 'target="total"', "@dp.append", r"which is no table and no sink \(did you mean totals\?\)"),
        ('@dp.append_flow(target="totals")', "@dp.temporary_view", "dp.create_sink", "no flow goes to totals"),
        ('(format="parquet", ', '(partition_cols=["user"], ', "@dp.table", "`partition_cols` of named has no meaning"),
        ('"mode": "update"', '"mode": "updat"', "dp.create_sink", "must be one of append, update.*did you mean"),
        ('target="totals"', 'target="totals", spark_conf={"a": "b"}', "@dp.append", "`spark_conf` of per_user has no"),
        ('topic="orders"', 'topik="orders"', "source(", r"`topik` is not known here \(did you mean `topic`\?\)"),
        ('checkpoint="state"', "flows={}", "pipeline(", "`flows` stands in the module itself"),
        ("LEAST = 100", "LEAST = spark.range(1)", "LEAST =", "this needs Spark"),
        ("LEAST = 100", 'LEAST = col("a")', "LEAST =", "this needs Spark, .* move it into the function"),
        ("LEAST = 100", 'LEAST = col("a") > 1', "LEAST =", "this needs Spark, .* move it into the function"),
        ("LEAST = 100", 'LEAST = lit(1)', "LEAST =", "this needs Spark, .* move it into the function"),
        ("LEAST = 100", '@udf("double")\ndef f(x): return x', "@udf", "this needs Spark, .* such as DoubleType"),
        ("LEAST = 100", "LEAST = 1 / 0", "LEAST =", "ZeroDivisionError: division by zero"),
        ("LEAST = 100", "LEAST = = 100", "LEAST =", "SyntaxError"),
        ('pipeline("shop", boot', 'dict(a="shop", boot', None, r"the module has no pipeline: write `pipeline\(NAME"),
        ('    return spark.sql("select user, sum(amount) as amount from big group by user")',
         '    return spark.table("big").groupBy("user").count()', None, None),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_with_its_line(load, before: str, after: str, at: str | None, reason: str):
    assert before in MODULE
    text = MODULE.replace(before, after)
    if reason is None:
        assert load(text).plan.flows[-1].groups
        return
    line = line_of(text, at) if at else 1
    with pytest.raises(SpecError, match=rf"shop\.py:{line}: .*{reason}"):
        load(text)


CHANGES = """\
from pyspark import pipelines as dp
from pyspark.sql.functions import col, expr

from moldau.spark.pipelines import pipeline, source

pipeline("mirror", bootstrap_servers="a:1")
source("raw", topic="changes", format="json", schema="id int, name string, version int, op string")


@dp.temporary_view
def changes():
    return spark.readStream.table("raw").where("id is not null")


dp.create_streaming_table("users")

dp.create_auto_cdc_flow(
    target="users",
    source="changes",
    keys=["id"],
    sequence_by="version",
    apply_as_deletes="op = 'd'",
    except_column_list=["version", "op"],
    stored_as_scd_type=1,
)
"""

CHANGES_PAGE = """\
name: mirror
bootstrap_servers: a:1
sources:
  raw: {topic: changes, format: json, schema: "id int, name string, version int, op string"}
flows:
  changes: select * from raw where id is not null
targets:
  users:
    from: changes
    delta: tables/users
    mode: update
    key: id
    sequence_by: version
    apply_as_deletes: op = 'd'
    except_column_list: [version, op]
"""


def test_a_flow_of_changes_makes_the_target_that_a_pipeline_has(load, tmp_path: Path):
    module = load(CHANGES)
    spec = parse_spec(CHANGES_PAGE, file_name="mirror.yaml", directory=tmp_path)
    assert describe(module) == describe(spec)
    ((ours,), (theirs,)) = (module.queries, spec.queries)
    assert (ours.sources, ours.target, ours.step.target.reads) == (theirs.sources, theirs.target, "changes")
    assert {name: fact for name, fact in ours.step.facts().items() if name != "flows.changes"} == {
        name: fact for name, fact in theirs.step.facts().items() if name != "flows.changes"
    }
    assert module.plan.targets[0].line == line_of(CHANGES, "dp.create_auto_cdc_flow")


def test_a_flow_of_changes_may_read_a_source_and_name_its_columns_as_spark_does(load, tmp_path: Path):
    text = CHANGES.replace('create_streaming_table("users")', 'create_streaming_table("users", format="sqlite",'
                           ' table_properties={"path": "shop.db", "table": "people"})')  # fmt: skip
    text = text.replace('"changes",\n', '"raw",\n').replace('["id"]', '["`a.b`", "id"]')
    text = text.replace('except_column_list=["version", "op"]', 'column_list=["id", "`a.b`", "name"]')
    text = text.replace("@dp.temporary_view", "def unused():\n    pass\n").replace("=1,", '="1", name="of the log",')
    text = text.replace(
        "from pyspark import", "from pyspark.pipelines import create_auto_cdc_flow\nfrom pyspark import"
    )
    (query,) = load(text.replace("dp.create_auto", "create_auto")).queries
    assert (query.step.target.reads, query.target.key, query.target.table) == ("raw", ("a.b", "id"), "people")
    assert query.step.facts()["targets.users.column_list"] == "id, a.b, name"


def test_columns_of_a_flow_of_changes_are_what_their_texts_say(load):
    with_texts = load(CHANGES).queries[0]
    text = CHANGES.replace('["id"]', '[col("id")]').replace('sequence_by="version"', 'sequence_by=col("version")')
    text = text.replace("\"op = 'd'\"", "expr(\"op = 'd'\")").replace(
        '["version", "op"]', '[F.column("version"), col("op")]'
    )
    with_columns = load(
        text.replace("from pyspark.sql.f", "from pyspark.sql import functions as F\nfrom pyspark.sql.f")
    )
    assert text.count("col(") == 3
    assert with_columns.queries[0].target == with_texts.target
    assert with_columns.queries[0].step.facts() == with_texts.step.facts()


def test_a_column_has_any_name_that_spark_finds(load):
    text = CHANGES.replace('["id"]', '[col("`a.b`"), col("the id")]').replace('"version",\n', 'col("at.the hour"),\n')
    target = load(text).queries[0].target
    assert (target.key, target.changes.sequence_by) == (("a.b", "the id"), "`at`.`the hour`")


HISTORY = CHANGES.replace(
    "stored_as_scd_type=1", 'stored_as_scd_type=2,\n    track_history_except_column_list=[col("name")]'
)
HISTORY_PAGE = CHANGES_PAGE + "    stored_as_scd_type: 2\n    track_history_except_column_list: name\n"


def test_a_flow_of_changes_may_make_a_history(load, tmp_path: Path):
    module, spec = load(HISTORY), parse_spec(HISTORY_PAGE, file_name="mirror.yaml", directory=tmp_path)
    target = module.queries[0].target
    assert target == spec.queries[0].target
    assert target.key == ("id", "__START_AT")
    assert (target.changes.has_history, target.changes.untracked) == (True, ("name",))


@pytest.mark.parametrize(
    ("before", "after", "at", "reason"),
    [
        ("stored_as_scd_type=1", 'track_history_column_list=["name"]', "dp.create_auto", "needs `stored_as_scd_type"),
        ("stored_as_scd_type=1", "stored_as_scd_type=3", "dp.create_auto", "`stored_as_scd_type` must be 1 or 2, not"),
        ("stored_as_scd_type=1", 'spark_conf={"a": "b"}', "dp.create_auto", "`spark_conf` of users has no meaning"),
        ("stored_as_scd_type=1", 'column_list=["id"]', "dp.create_auto", "`column_list` and `except_column_list` say"),
        ("stored_as_scd_type=1", "scd_type=1", "dp.create_auto", "TypeError: create_auto_cdc_flow.* 'scd_type'"),
        ('except_column_list=["version", "op"]', 'column_list=["name"]', "dp.create_auto", "must have .* the `key`"),
        ('except_column_list=["version", "op"]', 'column_list="id"', "dp.create_auto", "be a list of texts or columns"),
        ('except_column_list=["version", "op"]', 'except_column_list=["id"]', "dp.create_auto", "leave out the `key`"),
        ('["id"]', "[]", "dp.create_auto", "`keys` must name a column"),
        ('["id"]', '["raw.id"]', "dp.create_auto", "`keys` must name columns, not 'raw.id': .* in backticks"),
        ('sequence_by="version"', "sequence_by=1", "dp.create_auto", "`sequence_by` .* no text but a int: write the"),
        ('"op = \'d\'"', 'col("op") == "d"', "apply_as_deletes", r"this needs Spark, .* as SQL: expr\("),
        ('["id"]', '[col("raw.id")]', "dp.create_auto", "`keys` must name columns, not 'raw.id'"),
        ('sequence_by="version"', 'sequence_by=" "', "dp.create_auto", "`sequence_by` must be a text"),
        ('target="users"', 'target="user"', "dp.create_auto", r"to user, which is no table .*\(did you mean users\?\)"),
        ('source="changes"', 'source="change"', "dp.create_auto", r"`source` .* is change, .* mean changes\?\)$"),
        ('source="changes"', 'source="users"', "dp.create_auto", "`source` of create_auto_cdc_flow is users, which"),
        ('create_streaming_table("users")', 'create_sink("users", "delta", {})', "dp.create_auto", "is no table of"),
        ('table("users")', 'table("users", format="parquet")', "dp.create_streaming", "one of delta, iceberg, postgre"),
        ('table("users")', 'table("users", cluster_by=["id"])', "dp.create_streaming", "`cluster_by` of users has no"),
        ('table("users")', 'table("users", table_properties={"key": "id"})', "dp.create_auto", "`key` is given twice"),
        ('table("users")', 'table("users", table_properties={"kee": "id"})', "dp.create_streaming", "`kee` is not"),
        ("dp.create_auto", 'dp.create_auto_cdc_flow("users", "changes", ["id"], "op")\n\ndp.create_auto',
         "dp.create_auto_cdc_flow(\n", "takes the changes of one source and nothing else"),
        ("dp.create_streaming_table", '@dp.append_flow(target="users")\ndef more(): return changes()\n'
         "dp.create_streaming_table", "dp.create_auto", "takes the changes of one source and nothing else"),
        ("dp.create_auto_cdc_flow(", "dict(", "dp.create_stream", "with `append_flow` or `create_auto_cdc_flow`"),
        ("dp.create_streaming", '@dp.table\ndef more(): return spark.table("users")\ndp.create_streaming', "@dp.table",
         "`flows.more` reads users, which is no source and no flow"),
    ],
)  # fmt: skip
def test_changes_that_cannot_be_meant_are_refused_with_their_line(load, before: str, after: str, at: str, reason: str):
    assert before in CHANGES
    text = CHANGES.replace(before, after, 1)
    with pytest.raises(SpecError, match=rf"shop\.py:{line_of(text, at)}: .*{reason}"):
        load(text)


def test_check_and_graph_read_a_module(load, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    load(MODULE)
    path = str(tmp_path / "shop.py")
    assert main(["pipeline", "check", path, "--set", "PATIENCE=1 minute"]) == 0
    assert "target totals" in capsys.readouterr().out
    assert main(["pipeline", "graph", path, "--set", "PATIENCE=1 minute"]) == 0
    assert "-> totals: topic totals (update)" in capsys.readouterr().out
