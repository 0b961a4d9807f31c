"""The inputs and columns of a plain SELECT, without Spark: only what is certain."""

from __future__ import annotations

import pytest

from moldau.products.pipelines.core.select import plain_select

VIEWS = {
    "orders": ["user", "amount", "at", "city", "_key"],
    "users": ["name", "age"],
    "unknown": None,
}


@pytest.mark.parametrize(
    ("sql", "mistakes"),
    [
        ("select user, amuont from orders", [("amuont", "amount")]),
        ("select * from orders where AMONUT > 3 and city = 'x'", [("AMONUT", "amount")]),
        ("select o.amuont from orders o join users as u on o.user = u.name", [("amuont", "amount")]),
        ("select u.nmae from orders o join users as u on o.user = u.name", [("nmae", "name")]),
        ("select case when amount > 3 then 'x' else citty end as c from orders", [("citty", "city")]),
        ("select user, sum(amout) from orders group by user", [("amout", "amount")]),
        ("select `amuont` from orders", [("amuont", "amount")]),
    ],
)  # fmt: skip
def test_a_misspelt_column_is_told_with_the_one_that_was_meant(sql: str, mistakes: list[tuple[str, str]]):
    select = plain_select(sql, VIEWS)
    assert select is not None
    assert list(select.unknown()) == mistakes


@pytest.mark.parametrize(
    "sql",
    [
        "select user usr, amount amuont from orders",  # aliases
        "select user, sum(amount) as amout from orders group by user having amout > 3 order by amout",
        "select city.amuont, at.citty from orders",  # fields of a struct
        "select cast(amount as decimal(10, 2)) as a, amount::string from orders",
        "select amout(user) from orders",  # a function
        "select date '2026-01-01', interval '3' hours, extract(year from at) from orders",
        "select 'amuont', \"amuont\" from orders -- amuont",
        "select transform(user, amuont -> amuont + 1) from orders",
        "with o as (select amuont from orders) select * from o",
        "select amuont from orders lateral view explode(city) as amuont",
        "select amuont from orders, explode(city) as t(amuont)",
        "select amuont from orders union select name from users",
        "select nothing_like_it from orders",  # Spark says that
        "select amuont from unknown",
        "select amuont from (select user as amuont from orders)",
    ],
)
def test_what_may_be_right_is_no_mistake(sql: str):
    select = plain_select(sql, VIEWS)
    assert select is None or list(select.unknown()) == []


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("select * from users", ["name", "age"]),
        ("select user, o.amount, amount * 2 as double_amount from orders o", ["user", "amount", "double_amount"]),
        ("select distinct sum(amount) total from orders", ["total"]),
        ("select count(1) from orders", None),
        ("select *, 1 from orders", None),
        ("select * from orders join users on user = name", None),
        ("select amount * user from orders", None),
    ],
)
def test_the_columns_of_a_result_are_told_where_all_have_names(sql: str, columns: list[str] | None):
    select = plain_select(sql, VIEWS)
    assert select is not None
    assert select.gives() == columns
