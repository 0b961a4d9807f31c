"""Rows that an upsert by the column `id` cannot tell apart, as SQL, with what a target says of them."""

from __future__ import annotations

REFUSED_ROWS = (
    ("select * from values (1), (1) as t(id)", r"several rows of one key \(id\), such as \(1,\)"),
    ("select * from values (1), (null) as t(id)", "a row has no 'id', which `key` names"),
)
