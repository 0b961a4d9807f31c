"""A column of whole numbers in SQLite, which may contain other values too."""

from __future__ import annotations

import sqlite3

import pytest

from moldau.products.pipelines.sources.by_key import DatabaseSourceError
from moldau.products.pipelines.sources.sqlite import SqliteSource


def test_a_fraction_in_a_column_of_whole_numbers_is_refused(tmp_path):
    file = tmp_path / "a.db"
    with sqlite3.connect(file) as connection:
        connection.execute("create table t (a integer, b integer)")
        connection.executemany("insert into t values (?, ?)", [(1, 2), (2, 1.5)])
    feed = SqliteSource(file=file, table="t", by="a").feed()
    with pytest.raises(DatabaseSourceError, match=r"'b' has 1\.5, which is not int64"):
        list(feed.read((None, 2)))
