"""Where the sources of a query begin."""

from __future__ import annotations

from moldau.client.protocol.access import ClusterAccess
from moldau.products.sql.catalog.catalog import Catalog
from moldau.products.sql.catalog.deciding import apply, decide
from moldau.products.sql.compiling.expressions import Writing
from moldau.products.sql.compiling.plan import asked_by
from moldau.products.sql.engine.compiled import Compiled, Place
from moldau.products.sql.language.parser.script import parse_script
from moldau.products.sql.language.rewrites import Dialect

SCRIPT = """
CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic = 'c');
CREATE TABLE users (id STRING PRIMARY KEY, name STRING) WITH (kafka_topic = 'u');
SELECT page, name FROM clicks JOIN users ON user = id EMIT CHANGES;
"""


def test_a_table_begins_at_its_earliest_record_where_streams_begin_at_their_latest():
    catalog = Catalog()
    *declared, asked = parse_script(SCRIPT)
    for parsed in declared:
        for change in decide(catalog, parsed, {}).changes:
            catalog = apply(catalog, change)
    compiled = Compiled(catalog, asked_by(asked.statement, Writing(asked.text, {}, Dialect.SPARK)), is_live=True)
    sources = compiled.sources(Place(ClusterAccess("127.0.0.1:1")), "latest")
    assert {source.relation.name: source.start for source in sources.values()} == {
        "clicks": "latest",
        "users": "earliest",
    }
