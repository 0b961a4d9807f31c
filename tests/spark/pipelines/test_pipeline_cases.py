"""`moldau pipeline test`: results of a pipeline's own tests, without a broker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from moldau.cli.main import main
from moldau.testing.pipelines import pipeline_tests

SPEC = """\
name: shop
bootstrap_servers: 127.0.0.1:1
sources:
  orders: {topic: orders, format: json, schema: "user string, amount double, at timestamp", event_time: at,
           watermark: 10 seconds}
  users: {topic: users, format: json, schema: city string, as: table}
flows:
  big: select * from orders where amount > 100
  minutes: select window.start as minute, sum(amount) as amount from big group by window(at, '1 minute')
  counts: select user, count(*) as n from orders group by user
  placed: select orders.user, city from orders left join users on orders.user = users._key
targets:
  placed: {topic: placed}
  lake: {from: big, path: out}
  minutes: {topic: minutes}
  counts: {topic: counts, key: user, mode: update}
tests:
  a flow and a target of the same rows:
    given:
      orders: [{user: ann, amount: 120, at: 2026-01-01T00:00:05Z}, {user: bob, amount: 5}, no JSON]
    expect:
      big: [{user: ann, amount: 120, at: 2026-01-01T00:00:05Z, _offset: 0}]
      lake: [{user: ann}]
  what comes after its window is left out:
    given:
      orders:
        - [{user: ann, amount: 120, at: 2026-01-01T00:00:05Z}]
        - [{user: bob, amount: 500, at: 2026-01-01T00:02:00Z}]
        - [{user: cid, amount: 5}]
        - [{user: ann, amount: 999, at: 2026-01-01T00:00:09Z}]
    expect:
      minutes: [{minute: 2026-01-01T00:00:00Z, amount: 120}]
  every change of a group is a row:
    given:
      orders: [[{user: ann}, {user: ann}], [{user: bob}], [{user: ann}]]
    expect:
      counts: [{user: ann, n: 2}, {user: bob, n: 1}, {user: ann, n: 3}]
  a table has the newest record of each key:
    given:
      users: [{_key: ann, city: Prag}, {_key: ann, city: Linz}, {_key: bob, city: Brno}, {_key: bob, _value: null}]
      orders: [[{user: ann}], [{user: bob}]]
    expect:
      placed: [{user: ann, city: Linz}, {user: bob, city: null}]
  a record that its topic cannot have:
    given:
      orders: [{_nonsense: 1}]
    expect:
      lake: []
  this one is wrong:
    given: {}
    expect:
      lake: [{user: ann}]
"""


@pytest.mark.slow
def test_a_pipeline_s_tests_pass_or_show_the_rows_that_differ(
    spark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC, encoding="utf-8")
    views = spark.catalog.listTables()
    assert main(["pipeline", "test", str(spec)]) == 1
    told = capsys.readouterr()
    verdicts = [line.rpartition(" (")[0] for line in told.out.splitlines() if line.endswith(" s)")]
    assert verdicts == [
        f"{spec}: a flow and a target of the same rows: passed",
        f"{spec}: what comes after its window is left out: passed",
        f"{spec}: every change of a group is a row: passed",
        f"{spec}: a table has the newest record of each key: passed",
        f"{spec}: a record that its topic cannot have: failed",
        f"{spec}: this one is wrong: failed",
    ], told.out
    line = SPEC[: SPEC.index("a record that its topic")].count("\n") + 1
    assert f"\n{spec}:{line}: the records of `orders` cannot be given: a record of a topic has no '_nons" in told.out
    line = SPEC[: SPEC.rindex("lake:")].count("\n") + 1
    assert told.out.splitlines()[-2:] == [f"{spec}:{line}: `lake` has other rows", '  - {"user":"ann"}']
    assert spark.catalog.listTables() == views
    with pytest.raises(AssertionError, match="`lake` has other rows"):
        pipeline_tests(spec)[-1].check()


@pytest.mark.slow
@pytest.mark.parametrize("result", ["big", "lake"])
@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("_timestamp: noon", """The value 'noon' of the type "STRING" cannot be cast to "TIMESTAMP" """),
        ("_partition: first", "Cannot parse the field name 'partition' and the value first "),
    ],
    ids=["time", "number"],
)
def test_what_spark_cannot_read_of_a_record_is_no_null(
    spark, tmp_path: Path, capsys: pytest.CaptureFixture[str], record: str, reason: str, result: str
):
    """Otherwise a misspelt time would be in no window, and the test would report a missing row."""
    spec = tmp_path / "spec.yaml"
    given = f"[{{user: ann, amount: 120, {record}}}]"
    tests = f"tests:\n  one:\n    given: {{orders: {given}}}\n    expect: {{{result}: [{{user: ann}}]}}\n"
    spec.write_text(SPEC.partition("tests:\n")[0] + tests, "utf-8")
    assert main(["pipeline", "test", str(spec)]) == 1
    out = capsys.readouterr().out
    assert re.search(rf"^{spec}:\d+: `{result}`: \[[A-Z_]+\] {re.escape(reason)}", out, re.MULTILINE), out


def test_the_first_pipeline_passes_its_own_tests(spark, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    spec = tmp_path / "first.yaml"
    assert main(["pipeline", "init", str(spec)]) == 0
    assert main(["pipeline", "test", str(spec)]) == 0, capsys.readouterr().out
