"""Every function of ksqlDB, by name."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.products.sql.language.functions.aggregates import AGGREGATES
from moldau.products.sql.language.functions.collections import COLLECTIONS
from moldau.products.sql.language.functions.documents import DOCUMENTS
from moldau.products.sql.language.functions.numbers import NUMBERS
from moldau.products.sql.language.functions.row import Function
from moldau.products.sql.language.functions.texts import TEXTS
from moldau.products.sql.language.functions.times import TIMES

GROUPS: Mapping[str, tuple[Function, ...]] = {
    "Numbers, nulls and choices": NUMBERS,
    "Texts and bytes": TEXTS,
    "Arrays, maps and lambdas": COLLECTIONS,
    "JSON and URLs": DOCUMENTS,
    "Dates and times": TIMES,
    "Aggregates": AGGREGATES,
}

FUNCTIONS: Mapping[str, Function] = {row.name: row for rows in GROUPS.values() for row in rows}
"""By name, in upper case."""

SESSION_SETTINGS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.timeType.enabled": "true",  # off in Spark 4.2
}
"""The settings of a Spark session in which a rewritten call means what it means in ksqlDB."""
