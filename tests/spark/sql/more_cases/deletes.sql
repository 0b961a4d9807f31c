--@test: a null value deletes the row, and what follows from it
CREATE TABLE t (id STRING PRIMARY KEY, v BIGINT) WITH (kafka_topic = 't', partitions = 1, value_format = 'KAFKA');
CREATE TABLE r WITH (value_format = 'JSON') AS SELECT id, v * 2 AS w FROM t WHERE v > 0;
CREATE TABLE counts WITH (value_format = 'JSON') AS SELECT v, count(*) AS n FROM t GROUP BY v;
INSERT INTO t VALUES ('a', 1), ('b', 1);
ASSERT VALUES r (id, w) VALUES ('a', 2);
ASSERT VALUES r (id, w) VALUES ('b', 2);
ASSERT VALUES counts (v, n) VALUES (1, 2);
INSERT INTO t VALUES ('a', NULL);
ASSERT TOMBSTONE r (id) KEY ('a');
ASSERT VALUES counts (v, n) VALUES (1, 1);
INSERT INTO t VALUES ('b', NULL), ('c', NULL);
ASSERT TOMBSTONE r (id) KEY ('b');
ASSERT TOMBSTONE counts (v) KEY (1);
INSERT INTO t VALUES ('a', 3);
ASSERT VALUES r (id, w) VALUES ('a', 6);
ASSERT VALUES counts (v, n) VALUES (3, 1);

--@test: a deleted row that a foreign key names, and its return
CREATE TABLE o (oid BIGINT PRIMARY KEY, uid STRING, n INT) WITH (kafka_topic = 'o', partitions = 1);
CREATE TABLE u (id STRING PRIMARY KEY, name STRING) WITH (kafka_topic = 'u', partitions = 1, value_format = 'KAFKA');
CREATE TABLE j AS SELECT o.oid AS oid, u.name AS name FROM o JOIN u ON o.uid = u.id;
INSERT INTO o VALUES (1, 'u', 5);
INSERT INTO u VALUES ('u', 'Ada');
ASSERT VALUES j (oid, name) VALUES (1, 'Ada');
INSERT INTO u VALUES ('u', NULL);
ASSERT NULL VALUES j (oid) KEY (1);
INSERT INTO u VALUES ('u', 'Eve');
ASSERT VALUES j (oid, name) VALUES (1, 'Eve');

--@test: a deleted row is not found by a stream
CREATE STREAM c (id STRING KEY, page STRING) WITH (kafka_topic = 'c', partitions = 1);
CREATE TABLE u (id STRING PRIMARY KEY, name STRING) WITH (kafka_topic = 'u', partitions = 1, value_format = 'KAFKA');
CREATE STREAM j AS SELECT c.id AS id, page, name FROM c JOIN u ON c.id = u.id;
INSERT INTO u VALUES ('u', 'Ada');
INSERT INTO c VALUES ('u', '/a');
ASSERT VALUES j (id, page, name) VALUES ('u', '/a', 'Ada');
INSERT INTO u VALUES ('u', NULL);
INSERT INTO c VALUES ('u', '/b');
INSERT INTO u VALUES ('u', 'Eve');
INSERT INTO c VALUES ('u', '/c');
ASSERT VALUES j (id, page, name) VALUES ('u', '/c', 'Eve');

--@test: both rows of a full join go
CREATE TABLE a (id STRING PRIMARY KEY, v BIGINT) WITH (kafka_topic = 'a', partitions = 1, value_format = 'KAFKA');
CREATE TABLE b (id STRING PRIMARY KEY, w BIGINT) WITH (kafka_topic = 'b', partitions = 1, value_format = 'KAFKA');
CREATE TABLE j WITH (value_format = 'JSON') AS SELECT COALESCE(a.id, b.id) AS id, v, w FROM a FULL JOIN b ON a.id = b.id;
INSERT INTO a VALUES ('k', 1);
ASSERT VALUES j (id, v, w) VALUES ('k', 1, NULL);
INSERT INTO b VALUES ('k', 2);
ASSERT VALUES j (id, v, w) VALUES ('k', 1, 2);
INSERT INTO a VALUES ('k', NULL);
ASSERT VALUES j (id, v, w) VALUES ('k', NULL, 2);
INSERT INTO b VALUES ('k', NULL);
ASSERT NULL VALUES j (id) KEY ('k');

--@test: a group that HAVING removed comes back
CREATE STREAM c (id STRING KEY, v INT) WITH (kafka_topic = 'c', partitions = 1);
CREATE TABLE r AS SELECT id, count(*) AS n FROM c GROUP BY id HAVING count(*) <> 2;
INSERT INTO c VALUES ('a', 1);
ASSERT VALUES r (id, n) VALUES ('a', 1);
INSERT INTO c VALUES ('a', 1);
ASSERT NULL VALUES r (id) KEY ('a');
INSERT INTO c VALUES ('a', 1);
ASSERT VALUES r (id, n) VALUES ('a', 3);
