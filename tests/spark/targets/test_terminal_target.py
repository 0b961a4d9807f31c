"""A pipeline onto the terminal."""

from __future__ import annotations

import pytest

from moldau.products.pipelines.targets.terminal import TerminalTarget


def test_the_first_rows_of_a_batch_are_shown_as_a_table(spark, target_query, capsys):
    write = TerminalTarget(mode="append", rows=2).writer(target_query)
    write(spark.sql("select explode(sequence(1, 3)) as number, '[red]a' as word"), 4)
    write(spark.range(0), 5)
    shown = capsys.readouterr().out
    assert "p, batch 4" in shown
    assert "[red]a" in shown
    assert "and more rows" in shown
    assert "│ 2 " in shown
    assert "│ 3 " not in shown
    assert "batch 5" not in shown


def test_a_row_does_nothing_to_the_terminal(spark, target_query, capsys):
    write = TerminalTarget(mode="append", rows=2).writer(target_query)
    write(spark.sql(r"select 'a\u001b[2Jb' as word, encode('\u001b', 'UTF-8') as raw"), 1)
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert r"a\x1b[2Jb" in shown


def test_times_and_intervals_that_python_has_not_are_shown(spark, target_query, capsys):
    first, interval = "timestamp'0001-01-01T00:00:00Z'", "interval '1-2' year to month"
    rows = spark.sql(f"select {first} as `a.t`, {interval} as i, array({first}) as b")
    TerminalTarget(mode="append").writer(target_query)(rows, 1)
    shown = capsys.readouterr().out
    assert shown.count("0001-01-01") == 2
    assert "1-2" in shown


@pytest.mark.slow
def test_records_that_do_not_parse_are_counted_behind_the_rows_that_are_shown(run_spec, new_topic, produce):
    source = new_topic(2)
    for partition in (0, 1):
        produce(source, [(None, b'{"n":1}')] * 30 + [(None, b"no JSON")], partition=partition)
    spec = f"""
source: {{topic: {source}, format: json, schema: n int}}
sql: select n from source
sink: {{terminal: true, rows: 3}}
"""
    (state,) = run_spec(spec)
    assert (state.records_read, state.dead_letters) == (62, 2)


@pytest.mark.slow
def test_an_aggregate_keeps_its_state_behind_the_rows_that_are_shown(run_spec, new_topic, produce, capsys):
    source = new_topic()
    spec = f"""
source: {{topic: {source}, format: string}}
sql: select value as word, count(*) as times from source group by value
sink: {{terminal: true, rows: 1, mode: update}}
"""
    produce(source, [(None, b"w%d" % number) for number in range(40)])
    run_spec(spec)
    capsys.readouterr()
    produce(source, [(None, b"w%d" % number) for number in range(40)])
    run_spec(spec.replace("rows: 1,", "rows: 40,"))
    shown = capsys.readouterr().out
    assert shown.count("│ 2 ") == 40, shown
