"""A pipeline onto the terminal."""

from __future__ import annotations

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
