--@test: IF NOT EXISTS leaves a stream as it is
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM IF NOT EXISTS a (x INT) WITH (kafka_topic = 'other', partitions = 1);
ASSERT NOT EXISTS TOPIC other;
ASSERT STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN);

--@test: DROP IF EXISTS of nothing
DROP STREAM IF EXISTS nothing;
DROP TABLE IF EXISTS nothing;
DROP VIEW IF EXISTS nothing;
DROP TYPE IF EXISTS nothing;
DROP FUNCTION IF EXISTS nothing;

--@test: DROP with DELETE TOPIC
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
ASSERT TOPIC a WITH (partitions = 1);
DROP STREAM a DELETE TOPIC;
ASSERT NOT EXISTS TOPIC a TIMEOUT 10 SECONDS;

--@test: DROP leaves the topic
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
DROP STREAM a;
ASSERT TOPIC a;

--@test: OR REPLACE of a declared stream
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE OR REPLACE STREAM a (id STRING KEY, v BIGINT) WITH (kafka_topic = 'a');
ASSERT STREAM a (id STRING KEY, v BIGINT);

--@test: DEFINE fills names and strings
DEFINE topic = 'things';
DEFINE name = 'stuff';
CREATE STREAM ${name} (id STRING KEY) WITH (kafka_topic = '${topic}-1', partitions = 1);
ASSERT STREAM stuff (id STRING KEY);
ASSERT TOPIC `things-1`;

--@test: UNDEFINE and SET
DEFINE a = 'x';
UNDEFINE a;
SET 'auto.offset.reset' = 'latest';
UNSET 'auto.offset.reset';

--@test: a type of a type
CREATE TYPE point AS STRUCT<x INT, y INT>;
CREATE STREAM a (id STRING KEY, line ARRAY<point>) WITH (kafka_topic = 'a', partitions = 1);
DROP TYPE point;
CREATE STREAM r AS SELECT id, line[0]->x AS x FROM a;
INSERT INTO a VALUES ('k', ARRAY[STRUCT(x := 5, y := 6)]);
ASSERT VALUES r (id, x) VALUES ('k', 5);

--@test: PAUSE and RESUME
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, v FROM a;
INSERT INTO a (id, v) VALUES ('k', 1);
ASSERT VALUES r (id, v) VALUES ('k', 1);
PAUSE CSAS_R_0;
RESUME CSAS_R_0;
INSERT INTO a (id, v) VALUES ('k', 2);
ASSERT VALUES r (id, v) VALUES ('k', 2);

--@test: PAUSE ALL and RESUME ALL
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, v FROM a;
PAUSE ALL;
INSERT INTO a (id, v) VALUES ('k', 1);
RESUME ALL;
ASSERT VALUES r (id, v) VALUES ('k', 1);

--@test: TERMINATE, then DROP
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, v FROM a;
TERMINATE CSAS_R_0;
DROP STREAM r;
DROP STREAM a;

--@test: a stream with headers
CREATE STREAM a (id STRING KEY, v INT, h BYTES HEADER('x')) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, v, h IS NULL AS none FROM a;
INSERT INTO a (id, v) VALUES ('k', 1);
ASSERT VALUES r (id, none) VALUES ('k', true);

--@test: a SOURCE stream is only read
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE SOURCE STREAM b (id STRING KEY, v INT) WITH (kafka_topic = 'a');
CREATE STREAM r AS SELECT id, v FROM b;
INSERT INTO a (id, v) VALUES ('k', 1);
ASSERT VALUES r (id, v) VALUES ('k', 1);

--@test: partitions of what is read
CREATE STREAM a (id STRING KEY) WITH (kafka_topic = 'a', partitions = 3);
CREATE STREAM r AS SELECT * FROM a;
ASSERT TOPIC r WITH (partitions = 3);

--@test: partitions of its own
CREATE STREAM a (id STRING KEY) WITH (kafka_topic = 'a', partitions = 3);
CREATE STREAM r WITH (kafka_topic = 'q', partitions = 2) AS SELECT * FROM a;
ASSERT TOPIC q WITH (partitions = 2);

--@test: names in backquotes
CREATE STREAM `my stream` (`the id` STRING KEY, `select` INT) WITH (kafka_topic = 'm', partitions = 1);
CREATE STREAM `r-1` AS SELECT `the id`, `select` + 1 AS `x y` FROM `my stream`;
INSERT INTO `my stream` VALUES ('k', 1);
ASSERT VALUES `r-1` (`the id`, `x y`) VALUES ('k', 2);

--@test: SHOW, DESCRIBE and EXPLAIN
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE t (id STRING PRIMARY KEY, g STRING, v INT) WITH (kafka_topic = 't', partitions = 1);
CREATE STREAM r AS SELECT id, v FROM a;
SHOW STREAMS;
SHOW TABLES EXTENDED;
LIST QUERIES;
SHOW TOPICS;
SHOW TYPES;
SHOW FUNCTIONS;
SHOW VARIABLES;
SHOW PROPERTIES;
DESCRIBE a;
DESCRIBE r EXTENDED;
DESCRIBE FUNCTION UCASE;
EXPLAIN CSAS_R_0;
EXPLAIN SELECT g, count(*) FROM t GROUP BY g;
EXPLAIN CREATE STREAM q AS SELECT * FROM a;

--@test: a view of a view
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE VIEW one AS SELECT id, v FROM a WHERE v > 0;
CREATE VIEW two AS SELECT id, v * 2 AS w FROM one;
CREATE STREAM r AS SELECT id, w + 1 AS x FROM two;
INSERT INTO a (id, v) VALUES ('k', 5);
ASSERT VALUES r (id, x) VALUES ('k', 11);
DROP STREAM r;
DROP VIEW two;
DROP VIEW one;

--@test: a function of a function
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE FUNCTION inc(x INT) RETURNS INT RETURN x + 1;
CREATE FUNCTION twice(x INT) RETURNS INT RETURN inc(inc(x));
CREATE STREAM r AS SELECT id, twice(v) AS x FROM a;
INSERT INTO a (id, v) VALUES ('k', 5);
ASSERT VALUES r (id, x) VALUES ('k', 7);

--@test: a query in FROM
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT x + 1 AS y FROM (SELECT v * 2 AS x FROM a) AS q;
INSERT INTO a (id, v) VALUES ('k', 5);
ASSERT VALUES r (y) VALUES (11);

--@test: WITH before a query
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS WITH q AS (SELECT v * 2 AS x FROM a) SELECT x + 1 AS y FROM q;
INSERT INTO a (id, v) VALUES ('k', 5);
ASSERT VALUES r (y) VALUES (11);

--@test: a chain of three queries
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r1 AS SELECT id, v FROM a;
CREATE STREAM r2 AS SELECT id, v + 1 AS v FROM r1;
CREATE TABLE r3 AS SELECT id, sum(v) AS total FROM r2 GROUP BY id;
INSERT INTO a (id, v) VALUES ('k', 5);
ASSERT VALUES r3 (id, total) VALUES ('k', 6);
INSERT INTO a (id, v) VALUES ('k', 6);
ASSERT VALUES r3 (id, total) VALUES ('k', 13);

--@test: a SELECT and a PRINT with a limit
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
INSERT INTO a VALUES ('k', 1);
SELECT * FROM a LIMIT 1;
SELECT * FROM a EMIT CHANGES LIMIT 1;
PRINT a FROM BEGINNING LIMIT 1;
