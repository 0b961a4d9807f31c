"""Keys of a pipeline file, and the line of each error."""

from __future__ import annotations

import base64
import io
import json
import os
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import fastavro
import pytest

from moldau.products.pipelines import targets
from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.section import SpecError
from moldau.products.pipelines.spec.spec import describe, load_spec, parse_spec

SPEC = """\
name: minutes
bootstrap_servers: localhost:9092
source:
  topic: orders
  format: json
  schema: user string, amount double
  watermark: 10 seconds
sql: |
  select user from source;
sink:
  topic: out
  key: user
  mode: append
checkpoint: state/minutes
group: moldau.other
"""


def parse(text: str):
    return parse_spec(text, file_name="spec.yaml", directory=Path("/pages"))


def test_every_key_has_its_place():
    spec = parse(SPEC)
    (query,) = spec.queries
    source, target = query.sources["source"], query.target
    assert (spec.name, source.topic, source.format, source.watermark) == ("minutes", "orders", "json", "10 seconds")
    assert [(flow.name, flow.text, flow.reads) for flow in spec.plan.flows] == [
        ("minutes", "select user from source", ("source",))
    ]
    assert (target.topic, target.key, target.mode) == ("out", "user", "append")
    assert (query.checkpoint, query.group) == (Path("/pages/state/minutes"), "moldau.other")
    assert describe(spec)["delivery"] == "exactly once: one transaction for each batch"
    spec = parse(SPEC.replace("mode: append", "mode: append\n  delivery: at_least_once"))
    assert "at least once" in describe(spec)["delivery"]


def test_the_dead_letter_topics_of_all_sources_are_named(tmp_path: Path):
    sources = "".join(
        f"  {one}: {{topic: {one}, format: json, schema: n int, dead_letters: {one}.dl}}\n" for one in "ab"
    )
    spec = tmp_path / "spec.yaml"
    flow = "flows:\n  all: {sql: select n from a union all select n from b}\n"
    spec.write_text(f"name: two\nbootstrap_servers: a:1\nsources:\n{sources}{flow}targets: {{all: {{topic: c}}}}\n")
    assert describe(load_spec(spec))["dead letters"] == "topic a.dl, b.dl"


def test_what_may_be_left_out_has_a_default():
    spec = parse(
        "name: n\nbootstrap_servers: a:1\nsource: {topic: t, format: string}\nsql: select 1 from source\n"
        "sink: {path: out}"
    )
    (query,) = spec.queries
    assert (query.checkpoint, query.group) == (Path("/pages/checkpoints/n"), "moldau.n")
    assert (query.target.location, query.target.mode) == ("/pages/out", "append")


def test_a_target_may_lie_in_an_object_store():
    head = "name: n\nbootstrap_servers: a:1\nsource: {topic: t, format: string}\nsql: select 1 from source\n"
    for sink in ("path: s3://lake/out/", "delta: s3://lake/out"):
        (query,) = parse(f"{head}sink: {{{sink}}}").queries
        assert query.target.location == "s3://lake/out"
    (query,) = parse(f"{head}sink: {{iceberg: a.b, warehouse: s3://lake, catalog: a.db}}").queries
    assert (query.target.warehouse, query.target.catalog) == ("s3://lake", Path("/pages/a.db"))
    with pytest.raises(SpecError, match="name a file for it with `catalog`"):
        parse(f"{head}sink: {{iceberg: a.b, warehouse: s3://lake}}")
    with pytest.raises(SpecError, match="`path` must be a path on this machine, not `gs://lake/out`"):
        parse(f"{head}sink: {{path: gs://lake/out}}")


SHOP = """\
name: shop
bootstrap_servers: a:1
sources:
  orders: {topic: orders, format: json, schema: "user string, amount double, at timestamp", event_time: at}
  prices:
    pattern: prices-.*
    format: string
    bootstrap_servers: b:2
flows:
  big: select * from orders where amount > ${LEAST} and user <> '\\${LEAST}'
  counts: {sql_file: counts.sql}
targets:
  lake: {from: big, path: out/big}
  counts: {topic: counts, key: user, mode: update}
  raw: {from: prices, topic: raw}
"""


TABLE = """\
name: n
bootstrap_servers: a:1
sources:
  orders: {topic: orders, format: string}
  users: {topic: users, format: string, as: table, refresh: 1 minute}
flows:
  named: select * from orders join users on orders._key = users._key
targets:
  named: {path: out}
"""


def test_a_source_is_a_table_where_it_says_so():
    spec = parse(TABLE)
    (query,) = spec.queries
    assert [(step.name, step.is_stream) for step in query.step.sources] == [("orders", True), ("users", False)]
    assert list(query.streams()) == ["orders"]
    assert query.step.facts()["sources.users.as"] == "table"
    assert describe(spec)["table users"].endswith("read again every 60 s")


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("as: table, refresh", "refresh", r":5: `refresh` has no meaning for a stream"),
        ("as: table", "as: tabel", r":5: `as` must be one of stream, table, not `tabel`; did you mean `table`\?"),
        ("refresh: 1 minute", "watermark: 1 minute", r":5: `watermark` has no meaning for a table"),
        ("refresh: 1 minute", "start: latest", r":5: `start` has no meaning for a table"),
        ("format: string}", "format: string, as: table}", r":9: `targets\.named` reads no stream: orders is a table"),
    ],
)
def test_what_has_no_meaning_for_a_table_is_refused(before: str, after: str, reason: str):
    with pytest.raises(SpecError, match=f"^spec.yaml{reason}"):
        parse(TABLE.replace(before, after))


@pytest.fixture
def shop(tmp_path: Path):
    (tmp_path / "counts.sql").write_text("-- how many\nselect user, count(*) as n\nfrom Big group by user;\n")

    def parse_shop(text: str = SHOP):
        return parse_spec(text, file_name="shop.yaml", directory=tmp_path, parameters={"LEAST": "100"})

    return parse_shop


def test_each_target_is_a_query_with_places_of_its_own(shop, tmp_path: Path):
    spec = shop()
    state = tmp_path / "checkpoints" / "shop"
    assert [(one.name, one.checkpoint, one.group, one.transactional_id, list(one.sources)) for one in spec.queries] == [
        ("shop.lake", state / "lake", "moldau.shop.lake", "shop.lake", ["orders"]),
        ("shop.counts", state / "counts", "moldau.shop.counts", "shop.counts", ["orders"]),
        ("shop.raw", state / "raw", "moldau.shop.raw", "shop.raw", ["prices"]),
    ]
    assert [flow.name for flow in spec.queries[1].step.flows] == ["big", "counts"]
    assert str(spec.queries[2].sources["prices"].access) == "b:2"


def test_of_a_source_that_several_read_the_first_keeps_the_dead_letters(shop):
    assert [one.dead_letters_of for one in shop().queries] == [("orders",), (), ("prices",)]


def test_a_parameter_has_its_value_also_in_a_file_and_a_backslash_keeps_it(shop, tmp_path: Path):
    (tmp_path / "counts.sql").write_text("select user, ${LEAST} as n\nfrom big limit ${MOST}")
    with pytest.raises(SpecError, match=r"counts\.sql:2: `\$\{MOST\}` in `sql_file` has no value: .*`--set MOST=VALUE"):
        shop()
    (tmp_path / "counts.sql").write_text("select user, ${LEAST} as n from big")
    assert [flow.text for flow in shop().plan.flows] == [
        "select * from orders where amount > 100 and user <> '${LEAST}'",
        "select user, 100 as n from big",
    ]


@pytest.mark.parametrize(
    ("orders", "prices", "both"),
    [
        ("topic: orders", "topic: orders", "topic orders"),
        ("topic: orders", "pattern: ord.*", "topic orders"),
        ("pattern: ord.*", "topic: orders", "topic orders"),
        ("pattern: ord.*", "pattern: ord.*", r"topics ord\.\*"),
    ],
)
def test_one_query_cannot_read_topics_of_one_name_on_two_clusters(shop, orders: str, prices: str, both: str):
    joined = SHOP.replace("    pattern: prices-.*", f"    {prices}").replace(
        "  counts: {sql_file: counts.sql}", "  counts: select o.user from orders o join prices p on o.user = p.value"
    )
    with pytest.raises(SpecError, match=rf"shop\.yaml:14: `targets\.counts` reads the {both} of a:1 and of b:2"):
        shop(joined.replace("topic: orders", orders, 1))


def test_a_topic_target_may_be_on_a_cluster_of_its_own(shop):
    spec = shop(SHOP.replace("topic: counts,", "topic: counts, bootstrap_servers: 'c:3,d:4',"))
    assert [(str(one.access), one.places) for one in spec.queries[1:]] == [
        ("c:3,d:4", ("topic counts on c:3,d:4",)),
        ("a:1", ("topic raw",)),
    ]
    facts = describe(spec)
    assert (facts["cluster"], facts["source prices"]) == (
        "a:1", "topics prices-.* (string), first run from the earliest offsets, on b:2",
    )  # fmt: skip
    assert facts["target counts"] == "topic counts on c:3,d:4 (update), exactly once: one transaction for each batch"


@pytest.mark.parametrize("servers", ["a:1,[::1]:9092", "[::1], a:1", "[::1]:9092,a:1,"])
def test_one_list_of_addresses_is_one_cluster_however_it_is_written(shop, servers: str):
    def on(sources: str, target: str) -> str:
        text = SHOP.replace("bootstrap_servers: a:1", "bootstrap_servers: 'a:1,[::1]'")
        return text.replace("b:2", sources).replace("topic: raw", f"topic: raw, bootstrap_servers: '{target}'")

    raw = shop(on("b:2", servers)).queries[2]
    assert (str(raw.access), raw.places) == ("[::1]:9092,a:1", ("topic raw",))
    assert raw.target.describe()[0] == "topic raw"
    assert shop(on("b:2", "c:3,b:2")).queries[2].places == ("topic raw on b:2,c:3",)
    circle = on(f"'{servers}'", servers).replace("prices-.*", "r.*")
    with pytest.raises(SpecError, match=r"`targets\.raw` writes to the topic raw, which `sources\.prices` reads"):
        shop(circle)


@pytest.mark.parametrize(
    ("sink", "reason"),
    [
        ("topic: out, bootstrap_servers: c:x", "5: `bootstrap_servers` must be host:port, or several with commas"),
        ("topic: t, bootstrap_servers: b:2", "5: `sink` writes to the topic t, which `source` reads"),
        ("path: out, bootstrap_servers: b:2", "5: `bootstrap_servers` is not known here"),
    ],
)
def test_a_cluster_that_a_target_cannot_have_is_refused(sink: str, reason: str):
    source = "name: n\nbootstrap_servers: a:1\nsource: {topic: t, format: string, bootstrap_servers: 'b:2'}\n"
    with pytest.raises(SpecError, match=f"^spec.yaml:{reason}"):
        parse(f"{source}sql: select value from source\nsink: {{{sink}}}\n")
    # the pipeline's cluster has another topic of that name
    parse(f"{source}sql: select value from source\nsink: {{topic: t}}\n")


def test_a_pipeline_without_a_target_is_refused(shop):
    with pytest.raises(SpecError, match=r"shop\.yaml:12: `targets` must name a target"):
        shop(SHOP[: SHOP.index("targets:")] + "targets: {}\n")


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        (("${LEAST} and", "${LESS} and"), "shop.yaml:10: `${LESS}` in `big` has no value"),
        (("from orders where", "from order where"), "shop.yaml:10: `flows.big` reads order, which is no source and no "
         "flow (did you mean orders?)"),
        (("from: big", "from: bigger"), "shop.yaml:13: `targets.lake` takes the rows of bigger, which is no source"),
        (("{from: big, ", "{"), "shop.yaml:13: `targets.lake` takes the rows of lake"),
        (("  raw: {from: prices, topic: raw}\n", ""), "shop.yaml:5: `sources.prices` is read by no target"),
        (("from orders where", "from counts where"), "shop.yaml:10: `flows.big` reads itself: big <- counts <- big"),
        (("  big: ", "  Orders: "), "shop.yaml:10: `flows.Orders` has the name of `sources.orders`"),
        ((", mode: update", ""), "shop.yaml:11: `flows.counts` groups rows"),
        (("  big: ", "  big-ones: "), "shop.yaml:10: `big-ones` must be a word that SQL can read"),
        (("{sql_file: counts.sql}", "{sql_file: none.sql}"), "none.sql: cannot be read"),
        (("{sql_file: counts.sql}", "{file: counts.sql}"), "shop.yaml:11: `file` is not known here"),
        (("    pattern: prices-.*", "    pattern: prices-("), "shop.yaml:6: `pattern` is no regular expression"),
        (("bootstrap_servers: b:2", "bootstrap_servers: b:x"), "shop.yaml:8: `bootstrap_servers` must be host:port"),
        (("name: shop", "name: shop\nsink: {path: out}"), "shop.yaml:2: `sink` is not known here"),
        (("  raw: ", "  a/b: "), "shop.yaml:15: `a/b` must be 1 to 100 letters"),
    ],
)  # fmt: skip
def test_a_plan_that_cannot_run_is_refused_with_its_line(shop, change: tuple[str, str], refused: str):
    assert change[0] in SHOP
    with pytest.raises(SpecError) as error:
        shop(SHOP.replace(*change))
    assert refused in str(error.value)


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        (("name: minutes", "name: a b"), "spec.yaml:1: `name`"),
        (("bootstrap_servers: localhost:9092\n", ""), "spec.yaml:1: `bootstrap_servers` is missing"),
        (
            ("bootstrap_servers: localhost:9092", "bootstrap_servers:"),
            "spec.yaml:2: `bootstrap_servers` must be a text",
        ),
        (("  topic: orders", "  topics: orders"), "spec.yaml:4: `topics` is not known here"),
        (("  topic: orders", "  topic: a/b"), "spec.yaml:4: `topic` is no name of a topic"),
        (("  format: json", "  format: xml"), "spec.yaml:5: `format` must be one of "),
        (("  schema: user string, amount double\n", ""), "spec.yaml:5: `format` json needs a `schema`"),
        (("  format: json", "  format: string"), "spec.yaml:6: `schema` has no meaning"),
        (("10 seconds", "soon"), "spec.yaml:7: `watermark` must be a time"),
        (("  key: user", "  path: x"), "spec.yaml:11: `sink` needs exactly one of "),
        (
            ("  topic: out\n  key: user\n  mode: append", "  path: x\n  mode: update"),
            "`mode` update cannot go to files",
        ),
        (("  topic: out\n", "  path: x\n"), "spec.yaml:12: `key` is not known here; known are path, mode"),
        (
            ("  topic: out\n  key: user\n", "  path: x\n  delivery: at_least_once\n"),
            "`delivery` is not known here; known are path, mode",
        ),
        (("  topic: out\n", "  delta: x\n"), "spec.yaml:12: `key` is for the mode update"),
        (("  topic: out\n  key: user\n  mode: append", "  delta: x\n  mode: update"), "`mode` update needs `key`"),
        (
            ("  topic: out\n  key: user\n  mode: append", "  delta: x\n  mode: update\n  key: [a, a]"),
            "spec.yaml:13: `key` must be a text, or a list of different texts",
        ),
        (
            ("  topic: out\n  key: user\n", "  postgresql: postgresql://ann:secret@db/shop\n  table: t\n"),
            "spec.yaml:11: `postgresql` must not hold a password",
        ),
        (
            ("  topic: out\n  key: user\n", "  postgresql: host=db password = secret\n  table: t\n"),
            "spec.yaml:11: `postgresql` must not hold a password",
        ),
        (
            ("  topic: out\n  key: user\n", "  postgresql: postgresql://db/shop\n  table: a.b.c\n"),
            "spec.yaml:12: `table` must be `table` or `schema.table`",
        ),
        (
            ("  topic: out\n  key: user\n", "  webhook: http://a:b@db/shop\n"),
            "spec.yaml:11: `webhook` must be an address",
        ),
        (
            ("  topic: out\n  key: user\n", "  webhook: http://db:eighty/shop\n"),
            "spec.yaml:11: `webhook` must be an address",
        ),
        (
            ("  topic: out\n  key: user\n", "  webhook: http://db/k\u00e4se\n"),
            "spec.yaml:11: `webhook` must be an address",
        ),
        (
            ("  topic: out\n  key: user\n", '  webhook: http://db/shop\n  authorization: "Bearer a\\nb"\n'),
            "spec.yaml:12: `authorization` must be one line",
        ),
        (
            ("  topic: out\n  key: user\n", "  terminal: yes\n"),
            "spec.yaml:11: `terminal` must be one of true, not `yes`",
        ),
        (
            ("  topic: out\n  key: user\n", "  delta: x\n  compact_every: 0\n"),
            "spec.yaml:12: `compact_every` must be a number from 1 to 1000000, not `0`",
        ),
        (("  mode: append", "  delivery: twice"), "spec.yaml:13: `delivery` must be one of exactly_once"),
        (("  mode: append", "  mode: complete"), "spec.yaml:13: `mode` must be one of append, update"),
        (("state/minutes", "s3://bucket/x"), "spec.yaml:14: `checkpoint` must be a path on this machine"),
        (("state/minutes", '"a\\0b"'), "spec.yaml:14: `checkpoint` must be a path on this machine"),
        (("state/minutes", "~nobody-here/x"), "spec.yaml:14: `checkpoint` begins with the home of a user that is not"),
        (("group: moldau.other", "group: a\ngroup: b"), "spec.yaml:16: `group` is given twice"),
        (("group: moldau.other", "retries: 3"), "spec.yaml:15: `retries` is not known here"),
        (("source:\n", "source: x\nother:\n"), "spec.yaml:"),
        (("name: minutes", "name: [minutes"), "spec.yaml:"),
        (("name: minutes", "name: " + "[" * 10_000), "spec.yaml:1: YAML nested too deeply"),
        (("name: minutes", "name: .."), "spec.yaml:1: `name` must be 1 to 200 letters"),
    ],
)
def test_what_cannot_be_run_is_refused_with_its_line(change: tuple[str, str], refused: str):
    assert change[0] in SPEC
    with pytest.raises(SpecError) as error:
        parse(SPEC.replace(*change))
    assert refused in str(error.value)


def test_a_new_target_is_one_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "shouted.py").write_text(
        "from moldau.products.pipelines.targets.target import Target\n"
        "class Shouted(Target, frozen=True, kw_only=True):\n"
        "    NAMED_BY = 'shout'\n"
        "    KEYS = ('loudness',)\n"
        "    loudness: str\n"
        "    @classmethod\n"
        "    def parse(cls, sink, directory):\n"
        "        return cls(mode='append', loudness=sink.text('loudness'))\n"
    )
    monkeypatch.setattr(targets, "__path__", [*targets.__path__, str(tmp_path)])
    spec = parse(SPEC.replace("  topic: out\n  key: user\n  mode: append", "  shout: out\n  loudness: high"))
    assert spec.queries[0].target.loudness == "high"
    monkeypatch.undo()
    with pytest.raises(SpecError, match="`shout` is not known here; known are"):
        parse(SPEC.replace("  topic: out", "  shout: out"))


CIRCLE = """\
name: circle
bootstrap_servers: a:1
source: {topic: orders, format: string}
sql: select value from source
sink: {topic: orders}
"""


@pytest.mark.parametrize("source", ["topic: orders", "pattern: ord.*"])
def test_a_query_does_not_write_to_the_topic_that_it_reads(source: str):
    text = CIRCLE.replace("{topic: orders, f", f"{{{source}, f")
    with pytest.raises(SpecError, match=r"spec.yaml:5: `sink` writes to the topic orders, which `source` reads: each "):
        parse(text)
    parse(text.replace("{topic: orders}", "{topic: others}"))
    parse(text.replace(", format", ", bootstrap_servers: 'b:1', format"))


@pytest.mark.parametrize(
    ("source", "sink", "other"),
    [
        ("delta: out/t", "delta: ./out/t", "delta: out/u"),
        ("delta: s3://lake/t", "delta: s3://lake/t", "delta: s3://lake/u"),
        ("iceberg: a.t, warehouse: w", "iceberg: a.t, warehouse: ./w", "iceberg: a.u, warehouse: w"),
        ("iceberg: a.t, catalog: c.db", "iceberg: a.t, warehouse: v, catalog: c.db", "iceberg: a.t, warehouse: v"),
        ("files: out, format: parquet", "path: out", "path: other"),
        ("files: 'out/*.parquet', format: parquet", "path: out", "path: out/other"),
        ("files: s3://lake/out/, format: parquet", "path: s3://lake/out", "path: s3://lake/other"),
        ("files: 's3://lake/*', format: parquet", "path: s3://lake", "path: s3://lake/other"),
    ],
)
def test_a_query_does_not_write_to_the_table_or_the_files_that_it_reads(source: str, sink: str, other: str):
    text = CIRCLE.replace("topic: orders, format: string", source).replace("topic: orders", sink).replace("value", "n")
    with pytest.raises(SpecError, match=r"spec\.yaml:5: `sink` writes to .*, which `source` reads: .* another place"):
        parse(text)
    parse(text.replace(f"sink: {{{sink}", f"sink: {{{other}"))


def test_a_query_may_write_to_the_table_that_it_is_joined_with():
    text = """\
name: known
bootstrap_servers: a:1
sources:
  orders: {topic: orders, format: string}
  known: {delta: out, as: table}
flows:
  fresh: select value from orders left anti join known using (value)
targets:
  fresh: {delta: out}
"""
    parse(text)
    updated = "sources: {t: {delta: out, removed_rows: skip}}\ntargets: {t: {delta: out, mode: update, key: id}}"
    parse(f"name: n\nbootstrap_servers: a:1\n{updated}")


@pytest.mark.parametrize("written", ['"\\t"', "\\t", '" "'])
def test_a_blank_may_stand_between_fields(written: str):
    source = f"{{files: in, format: csv, schema: a int, separator: {written}}}"
    spec = parse(f"name: p\nbootstrap_servers: a:1\nsource: {source}\nsql: select a from source\nsink: {{path: out}}\n")
    (read,) = spec.sources().values()
    assert read.decoder.separator == (written if written == "\\t" else json.loads(written))


@pytest.mark.parametrize("text", ["", "just words", "- a\n- b"])
def test_a_pipeline_is_a_mapping(text: str):
    with pytest.raises(SpecError, match=r"spec\.yaml:1"):
        parse(text)


def test_an_absent_file_is_a_pipeline_error(tmp_path: Path):
    with pytest.raises(SpecError, match="cannot be read"):
        load_spec(tmp_path / "none.yaml")


def test_paths_of_a_pipeline_from_a_pipe_start_at_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    reading, writing = os.pipe()
    os.write(writing, SPEC.encode())
    os.close(writing)
    spec = load_spec(Path(f"/dev/fd/{reading}"))
    os.close(reading)
    assert spec.checkpoint == tmp_path / "state" / "minutes"


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ("{files: in, format: jsn}", "`format` must be one of json, csv, text, parquet, not `jsn`; did you"),
        ("{files: 's3://lake-*/in', format: text}", "`files` must name one bucket: a pattern may only come after it"),
        ("{files: 'gs://lake/in', format: text}", "`files` must be a path on this machine, not `gs://lake/in`"),
        ("{files: in, format: csv}", "`format` csv needs a `schema`"),
        ("{files: in, format: csv, schema: a int, header: true}", "`header` is the line itself that is no record"),
        ("{files: in, format: text, bad_records: stop}", "`bad_records` has no meaning for the format text"),
        ("{files: in, format: json, schema: a int, header: a}", "`header` has no meaning for the format json"),
        ("{files: in, format: json, schema: a int, watermark: 1 minute}", "`watermark` needs `event_time`"),
        ("{files: in, format: json, schema: a int, as: table}", "`as` table is not possible here"),
        ("{topic: t, format: json, schema: a int, bad_records: skip}", "`bad_records` must be one of "),
        ("{topic: t, format: json, schema: a int, bad_records: stop, dead_letters: d}", "`dead_letters` has"),
        ("{topic: t, format: avro}", "`format` avro needs a `schema_file`, or a `registry`"),
        ("{topic: t, format: json}", "`format` json needs a `schema`"),
        ("{topic: t, format: json, schema_file: none.json}", "`schema_file` there is no file /pages/none.json"),
        ("{topic: t, format: json, schema: a int, registry: 'http://r:1'}", "`schema` has no meaning with a JSON"),
        ("{topic: t, format: json, subject: s}", "`format` json needs a `schema_file`, or a `registry`"),
        ("{topic: t, format: csv, registry: 'http://r:1'}", "`registry` has no meaning for the format csv"),
        ("{files: in, format: json, registry: 'http://r:1'}", "`registry` is not known here"),
        ("{topic: t, format: avro, schema_file: none.avsc}", "`schema_file` there is no file /pages/none.avsc"),
        ("{pattern: t.*, format: avro, registry: 'http://r:1'}", "`format` needs a `subject`"),
        ("{topic: t, format: avro, registry: 'http://me:secret@r:1'}", "`registry` must be an address"),
        ("{topic: t, format: avro, registry: 'http://r:99999'}", "`registry` must be an address"),
        ("{topic: t, format: avro, registry: 'http://[::1'}", "`registry` must be an address"),
        ("{topic: t, format: avro, registry: 'http://r:1', message: A}", "`message` has no meaning"),
        ("{delta: in, removed_rows: keep}", "`removed_rows` must be one of refuse, skip"),
        ("{delta: in, as: table, removed_rows: skip}", "`removed_rows` has no meaning for a table"),
        ("{iceberg: orders}", "`iceberg` must be `namespace.table`, not `orders`"),
        ("{iceberg: shop.orders, warehouse: s3://lake/shop}", "`warehouse` is an object store"),
        ('{iceberg: shop.orders, warehouse: "lake #1"}', "`warehouse` must have no `#` and no `?`, where pyiceberg"),
        ("{iceberg: shop.orders, as: table, removed_rows: skip}", "`removed_rows` has no meaning for a table"),
        ("{sqlite: f.db, table: t}", "`by` is missing"),
        ("{sqlite: f.db, table: t, by: id, delay: soon}", "`delay` must be a time such as `10 seconds`, not `soon`"),
        ("{sqlite: f.db, table: t, as: table, delay: 1 minute}", "`delay` has no meaning for a table"),
        ("{postgresql: 'postgresql://h/d', table: a.b.c, by: id}", "`table` must be `table` or `schema.table`"),
        ("{postgresql: 'postgresql://u:p@h/d', table: t, by: id}", "`postgresql` must not hold a password"),
        ("{postgresql: 'postgresql://h/d', table: t, by: id, as: table}", "`by` has no meaning for a table"),
        ("{topic: t, format: string, max_records_per_batch: 0}", "`max_records_per_batch` must be a number from 1 to"),
        ("{topic: t, format: string, as: table, max_records_per_batch: 9}", "`max_records_per_batch` has no"),
        ("{delta: d, max_record_per_batch: 9}", "`max_record_per_batch` is not known here (did you mean"),
        ("{topic: t, format: json, schema: 'a int, amount dobule'}",
         "`schema` gives the column `amount` the type `dobule`, which Spark does not know; did you mean `double`?"),
        ("{files: in, format: csv, schema: 'a datetime'}", "`schema` gives the column `a` the type `datetime`, which"),
        ("{files: in, format: csv, schema: 'Id int, at date, id int'}",
         "`schema` has the columns `Id` and `id`, which SQL does not tell apart: upper and lower case are one"),
        ("{topic: t, format: json, schema: a int b int}",
         "`schema` must be names and Spark types, such as `user string, amount double`: before `b`, a comma is"),
        ("{topic: t, format: json, schema: 'a int, at timestamp', event_time: a, watermark: 1 minute}",
         "`event_time` names `a`, which is of type int: rows are late by a time; `at` is of type timestamp"),
        ("{files: in, format: json, schema: a int, event_time: b, watermark: 1 minute}",
         "`event_time` names `b`, which the schema lacks: rows are late by a time; declare a column `at timestamp`"),
    ],
)  # fmt: skip
def test_a_source_that_cannot_be_read_so_is_refused_with_its_line(source: str, refused: str):
    text = f"name: n\nbootstrap_servers: a:1\nsource: {source}\nsql: select 1 from source\nsink: {{path: out}}"
    with pytest.raises(SpecError) as error:
        parse(text)
    assert f"spec.yaml:3: {refused}" in str(error.value)


FIELDS = {
    "user": "string", "amount": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    "at": {"type": "long", "logicalType": "timestamp-millis"}, "day": {"type": "int", "logicalType": "date"},
    "raw": "bytes", "tags": {"type": "array", "items": "string"}, "city": ["null", "string"],
    "rate": ["null", "double"],
}  # fmt: skip


@pytest.fixture
def avro(tmp_path: Path):
    """An Avro pipeline with its schema in a file; the registry does not exist."""
    fields = [{"name": name, "type": kind} for name, kind in FIELDS.items()]
    schema = {"type": "record", "name": "Order", "fields": fields}
    (tmp_path / "order.avsc").write_text(json.dumps(schema), "utf-8")
    source = "format: avro\n  schema_file: order.avsc\n  registry: http://127.0.0.1:1"
    text = SPEC.replace("format: json\n  schema: user string, amount double", source)
    return parse_spec(text, file_name="spec.yaml", directory=tmp_path).sources()["source"].offline(), schema


def test_a_test_gives_avro_as_rows_of_json(avro):
    source, schema = avro
    row = {"user": "ann", "amount": 1.25, "at": "2026-01-01T01:00:00+01:00", "day": "2026-01-02", "raw": "AAH/",
           "tags": ["a"], "rate": Decimal("0.10")}  # fmt: skip
    encoded, raw = source.given([{**row, "_key": "k"}, {"_value": "no Avro"}], 7)
    value = fastavro.schemaless_reader(io.BytesIO(base64.b64decode(encoded["value"])), schema, None)
    assert value == {
        "user": "ann", "amount": Decimal("1.25"), "at": datetime(2026, 1, 1, tzinfo=UTC), "day": date(2026, 1, 2),
        "raw": b"\0\1\xff", "tags": ["a"], "city": None, "rate": 0.1,
    }  # fmt: skip
    assert (encoded["offset"], base64.b64decode(encoded["key"])) == (7, b"k")
    assert (raw["offset"], base64.b64decode(raw["value"])) == (8, b"no Avro")


@pytest.mark.parametrize(
    ("row", "refused"),
    [
        ({"usr": "ann"}, "a record has no 'usr': its schema has user, amount, at"),
        ({"at": "yesterday"}, "'yesterday' is no timestamp"),
        ({"amount": "much"}, "'much' is no decimal128"),
        ({"tags": "a"}, "'a' is no list<"),
        ({"user": "ann"}, "a row does not fit the schema: "),
    ],
)
def test_a_row_that_is_none_of_the_schema_is_refused(avro, row: dict, refused: str):
    with pytest.raises(FlowError) as error:
        avro[0].given([row], 0)
    assert str(error.value).startswith(refused)
