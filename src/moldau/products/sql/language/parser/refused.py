"""Statements of ksqlDB and Spark that are not served, each with the sentence that says what to do instead."""

from __future__ import annotations

from moldau.products.sql.language.errors import SqlError
from moldau.products.sql.language.parser.cursor import Cursor

_CONNECTORS = "connectors in SQL are not served: describe the other system in a pipeline file"
_STATEMENTS = {
    ("SPOOL",): "SPOOL is not served: redirect the output of `moldau sql run`",
    ("ALTER", "SYSTEM"): "ALTER SYSTEM is not served: a setting of this session is SET 'name' = 'value'",
    ("ALTER", "STREAM"): "ALTER STREAM is not served: write CREATE OR REPLACE STREAM with all columns",
    ("ALTER", "TABLE"): "ALTER TABLE is not served: write CREATE OR REPLACE TABLE with all columns",
    ("ALTER",): "ALTER is not served: write CREATE OR REPLACE",
    ("INSERT", "OVERWRITE"): "INSERT OVERWRITE is not served: records of a topic are not replaced; write INSERT INTO",
    ("UPDATE",): "UPDATE is not served: INSERT INTO a table with the same key replaces a row",
    ("DELETE",): "DELETE is not served: a row of a table is deleted by a record with its key and a null value",
    ("MERGE",): "MERGE is not served: INSERT INTO a table replaces rows of the same key",
    ("TRUNCATE",): "TRUNCATE is not served: write DROP ... DELETE TOPIC and CREATE",
    ("USE",): "USE is not served: streams and tables have one namespace",
    ("REFRESH",): "REFRESH is not served: a materialized view follows its topics",
    ("CACHE",): "CACHE is not served: write CREATE TABLE ... AS, which keeps its rows",
    ("UNCACHE",): "UNCACHE is not served: nothing is cached",
    ("ADD",): "ADD is not served: name jars and files when the session starts",
    ("DECLARE",): "DECLARE is not served: write DEFINE name = 'value' and ${name}",
    ("BEGIN",): "scripts with BEGIN and END are not served: write the statements one after the other",
    ("VALUES",): "VALUES alone is not served: write SELECT, or INSERT INTO ... VALUES",
    ("SHOW", "CONNECTORS"): _CONNECTORS,
    ("SHOW", "SOURCE", "CONNECTORS"): _CONNECTORS,
    ("SHOW", "SINK", "CONNECTORS"): _CONNECTORS,
    ("SHOW", "CONNECTOR"): _CONNECTORS,
    ("DESCRIBE", "CONNECTOR"): _CONNECTORS,
    ("DESCRIBE", "STREAMS"): "DESCRIBE has one name: write SHOW STREAMS EXTENDED",
    ("DESCRIBE", "TABLES"): "DESCRIBE has one name: write SHOW TABLES EXTENDED",
    ("SHOW", "CREATE"): "SHOW CREATE is not served: DESCRIBE name EXTENDED shows the statement",
}
_CREATED = {
    ("SOURCE", "CONNECTOR"): _CONNECTORS,
    ("SINK", "CONNECTOR"): _CONNECTORS,
    ("CONNECTOR",): _CONNECTORS,
    ("DATABASE",): "databases are not served: streams and tables have one namespace",
    ("SCHEMA",): "schemas are not served: streams and tables have one namespace",
    ("NAMESPACE",): "namespaces are not served: streams and tables have one namespace",
    ("EXTERNAL",): "EXTERNAL belongs to Spark's batch tables, which are not served: write CREATE SOURCE TABLE",
    ("GLOBAL",): "GLOBAL views are not served: CREATE VIEW without TEMPORARY is seen by every session",
    ("OR", "REFRESH"): "OR REFRESH is not served: write IF NOT EXISTS",
    ("TEMPORARY", "TABLE"): "temporary tables are not served: write CREATE TEMPORARY VIEW",
    ("INDEX",): "indexes are not served: a table is read by its key",
}
_DROPPED = {
    ("CONNECTOR",): _CONNECTORS,
    ("DATABASE",): _CREATED[("DATABASE",)],
    ("SCHEMA",): _CREATED[("SCHEMA",)],
    ("NAMESPACE",): _CREATED[("NAMESPACE",)],
    ("STREAMING",): "a streaming table is a table: write DROP TABLE",
    ("FLOW",): "a flow is a query: write TERMINATE and its id, which SHOW QUERIES lists",
    ("TOPIC",): "topics are dropped with what is declared over them: write DROP STREAM ... DELETE TOPIC",
}


def check_statement(cursor: Cursor) -> None:
    """Raises SqlError if a statement begins here that is not served. LIST is SHOW, DESC is DESCRIBE."""
    for words, sentence in _STATEMENTS.items():
        synonyms = {"SHOW": "LIST", "DESCRIBE": "DESC"}
        other = (synonyms.get(words[0], words[0]), *words[1:])
        if cursor.says(*words) or cursor.says(*other):
            raise _refused(cursor, sentence)


def check_create(cursor: Cursor) -> None:
    """Raises SqlError if what stands after CREATE is not served."""
    for words, sentence in _CREATED.items():
        if cursor.says(*words):
            raise _refused(cursor, sentence)


def check_drop(cursor: Cursor) -> None:
    """Raises SqlError if what stands after DROP is not served."""
    for words, sentence in _DROPPED.items():
        if cursor.says(*words):
            raise _refused(cursor, sentence)


def _refused(cursor: Cursor, sentence: str) -> SqlError:
    return cursor.error(sentence)
