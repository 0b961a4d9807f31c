--@test: an unknown stream
--@expected.error: there is no stream, table or view clics; did you mean clicks?
CREATE STREAM clicks (user STRING KEY) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE STREAM a AS SELECT * FROM clics;

--@test: an unknown column
--@expected.error: `usr` cannot be resolved
CREATE STREAM clicks (user STRING KEY) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE STREAM a AS SELECT usr FROM clicks;

--@test: an aggregate is a table
--@expected.error: write CREATE TABLE
CREATE STREAM clicks (user STRING KEY) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE STREAM a AS SELECT user, count(*) AS n FROM clicks GROUP BY user;

--@test: a projection of a stream is a stream
--@expected.error: write CREATE STREAM
CREATE STREAM clicks (user STRING KEY) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE TABLE a AS SELECT user FROM clicks;

--@test: the key of a group is selected
--@expected.error: add it to SELECT
CREATE STREAM clicks (user STRING KEY) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE TABLE a AS SELECT count(*) AS n FROM clicks GROUP BY user;

--@test: EMIT FINAL needs a window
--@expected.error: EMIT FINAL needs a window
CREATE STREAM clicks (user STRING KEY) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE TABLE a AS SELECT user, count(*) AS n FROM clicks GROUP BY user EMIT FINAL;

--@test: two streams are joined within a time
--@expected.error: joined WITHIN a time
CREATE STREAM a (id STRING KEY) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM b (id STRING KEY) WITH (kafka_topic = 'b', partitions = 1);
CREATE STREAM c AS SELECT a.id FROM a JOIN b ON a.id = b.id;

--@test: a table is joined on its key
--@expected.error: is joined on its key
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE t (id STRING PRIMARY KEY, v INT) WITH (kafka_topic = 't', partitions = 1);
CREATE STREAM c AS SELECT a.id FROM a JOIN t ON a.v = t.v;

--@test: types that do not meet in a join
--@expected.error: cast one of them
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE t (id STRING PRIMARY KEY, v INT) WITH (kafka_topic = 't', partitions = 1);
CREATE STREAM c AS SELECT a.id FROM a JOIN t ON a.v = t.id;

--@test: a table looks up no stream
--@expected.error: begin FROM with a
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE t (id STRING PRIMARY KEY, v INT) WITH (kafka_topic = 't', partitions = 1);
CREATE TABLE c AS SELECT t.id FROM t JOIN a ON a.id = t.id;

--@test: a table has its key
--@expected.error: a table has its key
CREATE TABLE t (id STRING PRIMARY KEY, v INT) WITH (kafka_topic = 't', partitions = 1);
CREATE TABLE c AS SELECT v FROM t;

--@test: a window is of a stream
--@expected.error: a window is of a stream
CREATE TABLE t (id STRING PRIMARY KEY, v INT) WITH (kafka_topic = 't', partitions = 1);
CREATE TABLE c AS SELECT id, count(*) AS n FROM t WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY id;

--@test: a session ends before it is written
--@expected.error: use EMIT FINAL
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE c AS SELECT id, count(*) AS n FROM a WINDOW SESSION (1 MINUTE) GROUP BY id;

--@test: what is read elsewhere is not dropped
--@expected.error: is used by CSAS_B_0
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM b AS SELECT * FROM a;
DROP STREAM a;

--@test: a stream that reads itself
--@expected.error: reads itself
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM b AS SELECT * FROM a;
CREATE OR REPLACE STREAM b AS SELECT * FROM b;

--@test: a row of a table has its key
--@expected.error: has no key
CREATE TABLE t (id STRING PRIMARY KEY, v INT) WITH (kafka_topic = 't', partitions = 1);
INSERT INTO t VALUES (NULL, 1);

--@test: a value that is not of the column's type
--@expected.error: cannot be cast
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
INSERT INTO a VALUES ('x', 'seven');

--@test: a missing topic
--@expected.error: there is no topic nowhere
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'nowhere');

--@test: DISTINCT would keep every row
--@expected.error: use GROUP BY
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM b AS SELECT DISTINCT v FROM a;

--@test: an aggregate that a table cannot keep
--@expected.error: cannot be kept while rows of a table change
CREATE TABLE t (id STRING PRIMARY KEY, v INT) WITH (kafka_topic = 't', partitions = 1);
CREATE TABLE c AS SELECT v, stddev(v) AS s FROM t GROUP BY v;

--@test: two columns of one name
--@expected.error: two columns are named v
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM b AS SELECT id, v, v + 1 AS v FROM a;

--@test: rows of another type are not inserted
--@expected.error: cast it
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM b (id STRING KEY, v BIGINT) WITH (kafka_topic = 'b', partitions = 1);
INSERT INTO b SELECT id, v FROM a;
