--@test: a word that is misspelt
--@expected.error: did you mean STREAM?
CREATE STREEM a (x INT) WITH (kafka_topic = 'a');

--@test: a bracket that is not closed
--@expected.error: is not closed
CREATE STREAM a (x INT WITH (kafka_topic = 'a');

--@test: an unknown property
--@expected.error: did you mean kafka_topic?
CREATE STREAM a (x INT) WITH (kafka_topik = 'a');

--@test: an unknown format
--@expected.error: did you mean JSON?
CREATE STREAM a (x INT) WITH (kafka_topic = 'a', value_format = 'JASON');

--@test: an unknown type
--@expected.error: BOGUS
CREATE STREAM a (x BOGUS) WITH (kafka_topic = 'a', partitions = 1);

--@test: a stream that exists
--@expected.error: already
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);

--@test: a table with the name of a stream
--@expected.error: already
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE a (id STRING PRIMARY KEY) WITH (kafka_topic = 'a');

--@test: another number of partitions
--@expected.error: has 1 partitions, not 3
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM b (id STRING KEY) WITH (kafka_topic = 'a', partitions = 3);

--@test: DROP TABLE of a stream
--@expected.error: DROP STREAM
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
DROP TABLE a;

--@test: DROP of nothing
--@expected.error: there is no
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
DROP STREAM b;

--@test: an unknown query
--@expected.error: no query has the id
TERMINATE CSAS_NOTHING_7;

--@test: an unknown variable
--@expected.error: the variable `who` is not defined
CREATE STREAM ${who} (x INT) WITH (kafka_topic = 'a');

--@test: an unknown function
--@expected.error: nofunction
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT nofunction(v) AS x FROM a;

--@test: a type that does not meet
--@expected.error: data type mismatch
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, v AND b AS x FROM a;

--@test: WHERE with an aggregate
--@expected.error: aggregate
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, count(*) AS n FROM a WHERE count(*) > 1 GROUP BY id;

--@test: a column that is not grouped
--@expected.error: GROUP BY
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, v, count(*) AS n FROM a GROUP BY id;

--@test: a table of one group without a key
--@expected.error: a table has a key
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT count(*) AS n FROM a;

--@test: PARTITION BY what is not selected
--@expected.error: add it to SELECT
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id FROM a PARTITION BY v;

--@test: FULL JOIN of a stream and a table
--@expected.error: FULL would have no row
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE t (id STRING PRIMARY KEY, g STRING, v INT) WITH (kafka_topic = 't', partitions = 1);
CREATE STREAM r AS SELECT a.id FROM a FULL JOIN t ON a.id = t.id;

--@test: WITHIN for a table
--@expected.error: WITHIN is for two streams
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE t (id STRING PRIMARY KEY, g STRING, v INT) WITH (kafka_topic = 't', partitions = 1);
CREATE STREAM r AS SELECT a.id FROM a JOIN t WITHIN 1 HOUR ON a.id = t.id;

--@test: a join on more than equality
--@expected.error: equals its key
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE t (id STRING PRIMARY KEY, g STRING, v INT) WITH (kafka_topic = 't', partitions = 1);
CREATE STREAM r AS SELECT a.id FROM a JOIN t ON a.id > t.id;

--@test: RIGHT JOIN by a reference
--@expected.error: joins by a reference
CREATE TABLE t (id STRING PRIMARY KEY, g STRING, v INT) WITH (kafka_topic = 't', partitions = 1);
CREATE TABLE u (id STRING PRIMARY KEY) WITH (kafka_topic = 'u', partitions = 1);
CREATE TABLE r AS SELECT t.id FROM t RIGHT JOIN u ON t.g = u.id;

--@test: a full join without its key
--@expected.error: COALESCE
CREATE TABLE t (id STRING PRIMARY KEY, g STRING, v INT) WITH (kafka_topic = 't', partitions = 1);
CREATE TABLE u (id STRING PRIMARY KEY) WITH (kafka_topic = 'u', partitions = 1);
CREATE TABLE r AS SELECT t.id, u.id AS uid FROM t FULL JOIN u ON t.id = u.id;

--@test: ORDER BY of a table that changes
--@expected.error: so it ends
CREATE TABLE t (id STRING PRIMARY KEY, g STRING, v INT) WITH (kafka_topic = 't', partitions = 1);
SELECT * FROM t ORDER BY v EMIT CHANGES;

--@test: INSERT of too few values
--@expected.error: values for
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
INSERT INTO a VALUES ('k');

--@test: INSERT into an unknown column
--@expected.error: has no column
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
INSERT INTO a (nope) VALUES (1);

--@test: INSERT into a SOURCE
--@expected.error: only read
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE SOURCE STREAM b (id STRING KEY) WITH (kafka_topic = 'a');
INSERT INTO b VALUES ('x');

--@test: INSERT of a query into itself
--@expected.error: own rows
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
INSERT INTO a SELECT * FROM a;

--@test: INSERT of a stream into a table
--@expected.error: is a table
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE t (id STRING PRIMARY KEY, g STRING, v INT) WITH (kafka_topic = 't', partitions = 1);
INSERT INTO t SELECT id, s AS g, v FROM a;

--@test: a circle of queries
--@expected.error: own rows
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT * FROM a;
INSERT INTO a SELECT * FROM r;

--@test: a view that is read is not dropped
--@expected.error: drop that first
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE VIEW one AS SELECT id FROM a;
CREATE VIEW two AS SELECT id FROM one;
DROP VIEW one;

--@test: a stream that a view reads is not dropped
--@expected.error: reads a
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE VIEW one AS SELECT id FROM a;
DROP STREAM a;

--@test: a timestamp that is no column
--@expected.error: is no column
CREATE STREAM a (id STRING KEY) WITH (kafka_topic = 'a', partitions = 1, timestamp = 'at');

--@test: a table without a key format
--@expected.error: a table has a key
CREATE TABLE a (id INT) WITH (kafka_topic = 'a', partitions = 1, key_format = 'NONE');

--@test: a registry that is not there
--@expected.error: registry
CREATE STREAM a WITH (kafka_topic = 'a', partitions = 1, value_format = 'AVRO');

--@test: an assertion about a topic
--@expected.error: there is no topic
ASSERT TOPIC nothing;

--@test: an assertion about a stream
--@expected.error: nothing
ASSERT STREAM nothing (x INT);

--@test: an unknown property of the session
--@expected.error: sql.dialect
SET 'sql.dialekt' = 'ksql';

--@test: an unknown dialect
--@expected.error: ksql
SET 'sql.dialect' = 'mysql';

--@test: ksqlDB's word without a twin
--@expected.error: AT TIME ZONE
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT FROM_UNIXTIME(v) AT TIME ZONE 'UTC' AS x FROM a;

--@test: Spark's batch table
--@expected.error: CREATE TABLE
CREATE TABLE a (x INT) USING parquet;

--@test: a connector
--@expected.error: connector
CREATE SINK CONNECTOR c WITH ('x' = 'y');

--@test: a file of RUN SCRIPT
--@expected.error: RUN SCRIPT
RUN SCRIPT 'x.sql';
