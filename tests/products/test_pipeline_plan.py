"""The relations that SQL reads, found from its words, and the resulting order of flows."""

from __future__ import annotations

import pytest

from moldau.products.pipelines.core.parameters import UnknownParameterError, fill
from moldau.products.pipelines.core.plan import PlanError, SourceStep, TargetStep, make_flow, make_plan
from moldau.products.pipelines.core.statement import groups, relations_of
from tests.support.sql_statements import STATEMENTS


@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_relation_stands_after_from_or_join(sql: str):
    assert list(relations_of(sql)) == STATEMENTS[sql]


@pytest.mark.parametrize(
    ("sql", "is_grouped"),
    [
        ("select a, count(*) from s GROUP  BY a", True),
        ("select distinct a from s", True),
        ("select a as `group`, b from s -- group by a", False),
        ("select sum(a) over (partition by b) from s where c is distinct from d", False),
    ],
)
def test_rows_are_grouped_by_group_by_and_distinct(sql: str, is_grouped: bool):
    assert groups(sql) is is_grouped


def source(name: str, watermark: str | None = None, *, is_stream: bool = True) -> SourceStep:
    return SourceStep(name=name, place=f"sources.{name}", facts={}, watermark=watermark, is_stream=is_stream)


def target(name: str, reads: str, mode: str = "append") -> TargetStep:
    return TargetStep(name=name, place=f"targets.{name}", reads=reads, mode=mode)


def flow(name: str, sql: str):
    return make_flow(name, sql, place=f"flows.{name}")


def test_a_flow_stands_behind_what_it_reads_and_a_query_has_what_it_needs():
    plan = make_plan(
        "p",
        [source("a"), source("b")],
        [
            flow("last", "select * from middle join b"),
            flow("middle", "select * from A"),
            flow("other", "select 1 from b"),
        ],
        [target("one", "LAST"), target("two", "other")],
    )
    assert [step.name for step in plan.flows] == ["middle", "other", "last"]
    one, two = plan.queries()
    assert ([step.name for step in one.sources], [step.name for step in one.flows]) == (["a", "b"], ["middle", "last"])
    assert ([step.name for step in two.sources], [step.name for step in two.flows]) == (["b"], ["other"])
    assert list(one.facts()) == ["flows.middle", "flows.last", "targets.one.mode"]


def test_a_table_is_read_beside_a_stream_and_needs_no_watermark():
    table = source("prices", is_stream=False)
    grouped = flow("f", "select a, count(*) from s join prices group by a")
    make_plan("p", [source("s", "1 minute"), table], [grouped], [target("t", "f")])
    with pytest.raises(PlanError, match="groups rows"):
        make_plan("p", [source("s"), table], [grouped], [target("t", "f")])
    with pytest.raises(PlanError, match=r"`targets\.t` reads no stream: prices is a table"):
        make_plan("p", [table], [], [target("t", "prices")])


def test_a_parameter_is_filled_once():
    assert fill("a ${A} $B {C} \\${A} $${A}", {"A": "${B}"}) == "a ${B} $B {C} ${A} $${B}"
    with pytest.raises(UnknownParameterError) as error:
        fill("a\nb ${}\n", {"A": "1"})
    assert (error.value.name, error.value.lines) == ("", 1)
