"""Topic names that are slips of others, and names that differ on purpose."""

from __future__ import annotations

import pytest

from moldau.products.pipelines.core.slips import meant_by

KNOWN = ["orders", "eu.orders.raw", "spenders-2", "big-orders"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("order", "orders"),
        ("oders", "orders"),
        ("Orders", "orders"),
        ("eu.ordres.raw", "eu.orders.raw"),
        ("eu-orders-raw", "eu.orders.raw"),
        ("spendres-2", "spenders-2"),
        ("bigorders", "big-orders"),
        ("big_orders", "big-orders"),
    ],
)
def test_a_misspelt_word_or_another_separator_is_a_slip(name: str, meant: str):
    assert meant_by(name, KNOWN) == meant


@pytest.mark.parametrize(
    "name",
    [
        "orders",
        "orders-2",
        "orders-late",
        "us.orders.raw",
        "eu.orders.big",
        "spenders-3",
        "small-orders",
        "visits",
        "o",
    ],
)
def test_another_name_is_no_slip(name: str):
    assert meant_by(name, [one for one in KNOWN if one != name]) is None
