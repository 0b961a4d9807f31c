--@test: every property of WITH
CREATE STREAM a (id STRING KEY, at STRING, v INT, h ARRAY<STRUCT<key STRING, value BYTES>> HEADERS)
    WITH (kafka_topic = 'a', partitions = 2, replicas = 1, retention_ms = 3600000, format = 'DELIMITED', value_delimiter = 'TAB',
          timestamp = 'at', timestamp_format = 'yyyy/MM/dd HH:mm:ss');
CREATE STREAM r WITH (kafka_topic = 'r', partitions = 1, key_format = 'JSON', value_format = 'JSON') AS
    SELECT id, v, ROWTIME AS ms, size(h) AS headers FROM a;
INSERT INTO a (id, at, v) VALUES ('k', '1970/01/01 00:01:00', 5);
ASSERT VALUES r (ROWTIME, id, v, ms, headers) VALUES (60000, 'k', 5, 60000, 0);
ASSERT TOPIC a WITH (partitions = 2, replicas = 1) TIMEOUT 10 SECONDS;
ASSERT STREAM a WITH (kafka_topic = 'a', value_format = 'DELIMITED', key_format = 'DELIMITED');

--@test: every other type
CREATE STREAM a (id STRING KEY, t TIME, n TIMESTAMP_NTZ, b BYTES, c CHAR, d CHARACTER, e VARCHAR, f INTEGER, g MAP<STRING, ARRAY<STRUCT<x: INT>>>)
    WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT * FROM a;
INSERT INTO a VALUES ('k', TIME '08:09:10', TIMESTAMP_NTZ '2026-11-30 08:00:00', X'00ff', 'abc', 'xyz', 'v', 7, MAP('m' := ARRAY[STRUCT(x := 1)]));
ASSERT VALUES r VALUES ('k', TIME '08:09:10', TIMESTAMP_NTZ '2026-11-30 08:00:00', X'00ff', 'abc', 'xyz', 'v', 7, MAP('m' := ARRAY[STRUCT(x := 1)]));

--@test: OR REPLACE and IF NOT EXISTS of queries, views, functions and types
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE TYPE IF NOT EXISTS pair AS STRUCT<x INT, y INT>;
CREATE TYPE IF NOT EXISTS pair AS STRUCT<x STRING>;
CREATE FUNCTION more(x INT) RETURNS INT RETURN x + 1;
CREATE OR REPLACE FUNCTION more(x INT) RETURNS INT RETURN x + 2;
CREATE FUNCTION IF NOT EXISTS more(x INT) RETURNS INT RETURN x + 3;
CREATE VIEW some AS SELECT id, more(v) AS v FROM a;
CREATE OR REPLACE TEMPORARY VIEW some AS SELECT id, more(v) AS v FROM a WHERE v > 0;
CREATE VIEW IF NOT EXISTS some AS SELECT id FROM a;
CREATE STREAM r AS SELECT id, STRUCT(x := v, y := 0) AS p FROM some;
CREATE STREAM IF NOT EXISTS r AS SELECT id FROM a;
INSERT INTO a VALUES ('k', -1), ('k', 5);
ASSERT VALUES r (id, p) VALUES ('k', STRUCT(x := 7, y := 0));
ASSERT STREAM r (id STRING KEY, p pair);
DROP STREAM r;
DROP VIEW some;
DROP FUNCTION more;
DROP TYPE pair;

--@test: OR REPLACE of a table whose state would not fit
--@expected.error: DROP TABLE r, and create it again
CREATE TABLE t (id STRING PRIMARY KEY, v INT) WITH (kafka_topic = 't', partitions = 1);
CREATE TABLE r AS SELECT id, v FROM t;
CREATE OR REPLACE TABLE r AS SELECT id, v * 10 AS v FROM t;

--@test: OR REPLACE of a table by the same, and a SOURCE TABLE of it
CREATE TABLE t (id STRING PRIMARY KEY, v INT) WITH (kafka_topic = 't', partitions = 1);
CREATE TABLE IF NOT EXISTS t (id STRING PRIMARY KEY) WITH (kafka_topic = 'other', partitions = 1);
CREATE TABLE r AS SELECT id, v * 10 AS v FROM t;
CREATE OR REPLACE TABLE r AS SELECT id, v * 10 AS v FROM t;
INSERT INTO t VALUES ('k', 1);
ASSERT VALUES r (id, v) VALUES ('k', 10);
CREATE SOURCE TABLE s (id STRING PRIMARY KEY, v INT) WITH (kafka_topic = 'r');
DROP TABLE s;

--@test: INSERT INTO a table from another table
CREATE TABLE a (id STRING PRIMARY KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE b (id STRING PRIMARY KEY, v INT) WITH (kafka_topic = 'b', partitions = 1);
INSERT INTO b BY NAME SELECT v + 1 AS v, id FROM a WHERE v > 0;
INSERT INTO a VALUES ('k', 1);
ASSERT VALUES b (id, v) VALUES ('k', 2);
INSERT INTO a VALUES ('k', -1);
ASSERT NULL VALUES b (id) KEY ('k');

--@test: TERMINATE ALL keeps what was written, and INSERT adds to it
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, v FROM a;
INSERT INTO a VALUES ('k', 1);
ASSERT VALUES r (id, v) VALUES ('k', 1);
TERMINATE ALL;
INSERT INTO a VALUES ('k', 2);
INSERT INTO r VALUES ('k', 3);
ASSERT VALUES r (id, v) VALUES ('k', 3);

--@test: TERMINATE of an INSERT
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM b (id STRING KEY, v INT) WITH (kafka_topic = 'b', partitions = 1);
INSERT INTO b SELECT id, v FROM a;
TERMINATE INSERTQUERY_B_0;
DROP STREAM a DELETE TOPIC;
ASSERT NOT EXISTS TOPIC a TIMEOUT 10 SECONDS;

--@test: looking at everything
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE t AS SELECT id, sum(v) AS s FROM a GROUP BY id;
CREATE VIEW w AS SELECT id FROM a;
SHOW VIEWS;
LIST VIEWS EXTENDED;
LIST STREAMS EXTENDED;
SHOW QUERIES EXTENDED;
SHOW ALL TOPICS;
LIST ALL TOPICS EXTENDED;
LIST TYPES;
LIST FUNCTIONS;
LIST VARIABLES;
LIST PROPERTIES;
DESCRIBE t EXTENDED;
DESCRIBE w;
DESCRIBE FUNCTION GEO_DISTANCE;
EXPLAIN CTAS_T_0;
EXPLAIN CREATE TABLE q AS SELECT id, count(*) AS n FROM a WINDOW HOPPING (SIZE 10 SECONDS, ADVANCE BY 5 SECONDS) GROUP BY id EMIT FINAL;
EXPLAIN CREATE VIEW q AS SELECT * FROM t;
EXPLAIN CREATE MATERIALIZED VIEW q AS SELECT id, s FROM t;
EXPLAIN INSERT INTO a SELECT id, CAST(s AS INT) AS v FROM t EMIT CHANGES;
PRINT 'a' FROM BEGINNING INTERVAL 2 LIMIT 1;
PRINT t LIMIT 3;

--@test: variables stand for themselves after two dollars
DEFINE who = 'x';
CREATE STREAM a (id STRING KEY) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, '${who}' AS one, '$${who}' AS two FROM a;
INSERT INTO a VALUES ('k');
ASSERT VALUES r (id, one, two) VALUES ('k', 'x', '$${who}');

--@test: a value that does not decode is no row
CREATE STREAM raw (id STRING KEY, v STRING) WITH (kafka_topic = 'raw', partitions = 1, value_format = 'KAFKA');
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'raw', value_format = 'JSON');
CREATE STREAM r AS SELECT id, v FROM a;
INSERT INTO raw VALUES ('k', 'no JSON'), ('k', '{"v": "seven"}'), ('k', '{"v": 7}');
ASSERT VALUES r (id, v) VALUES ('k', 7);

--@test: comments, and clauses of Declarative Pipelines
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1); -- to the end of the line
/* several
   lines */
CREATE STREAMING TABLE IF NOT EXISTS b (id STRING, v INT) COMMENT 'all rows' TBLPROPERTIES (kafka_topic = 'b', partitions = 1);
CREATE FLOW f COMMENT 'from a' AS INSERT INTO b BY NAME SELECT v, id FROM STREAM a;
CREATE STREAMING TABLE c COMMENT 'twice' TBLPROPERTIES (kafka_topic = 'c', partitions = 1) AS SELECT id, v * 2 AS v FROM STREAM(a);
CREATE MATERIALIZED VIEW IF NOT EXISTS d COMMENT 'sums' TBLPROPERTIES (kafka_topic = 'd', partitions = 1) AS SELECT id, sum(v) AS s FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3);
ASSERT VALUES b (id, v) VALUES ('k', 3);
ASSERT VALUES c (id, v) VALUES ('k', 6);
ASSERT VALUES d (id, s) VALUES ('k', 3);
ASSERT TOPIC d WITH (partitions = 1);
