--@test: INNER JOIN of tables: the left row goes
CREATE TABLE l0 (id STRING PRIMARY KEY, v INT) WITH (kafka_topic = 'l0', partitions = 1);
CREATE TABLE r0 (id STRING PRIMARY KEY, w INT) WITH (kafka_topic = 'r0', partitions = 1);
CREATE TABLE l AS SELECT id, v FROM l0 WHERE v > 0;
CREATE TABLE r AS SELECT id, w FROM r0 WHERE w > 0;
CREATE TABLE j AS SELECT l.id AS id, v, w FROM l JOIN r ON l.id = r.id;
INSERT INTO l0 VALUES ('k', 1);
INSERT INTO r0 VALUES ('k', 2);
ASSERT VALUES j (id, v, w) VALUES ('k', 1, 2);
INSERT INTO l0 VALUES ('k', -1);
ASSERT NULL VALUES j (id) KEY ('k');

--@test: INNER JOIN of tables: the right row goes
CREATE TABLE l0 (id STRING PRIMARY KEY, v INT) WITH (kafka_topic = 'l0', partitions = 1);
CREATE TABLE r0 (id STRING PRIMARY KEY, w INT) WITH (kafka_topic = 'r0', partitions = 1);
CREATE TABLE l AS SELECT id, v FROM l0 WHERE v > 0;
CREATE TABLE r AS SELECT id, w FROM r0 WHERE w > 0;
CREATE TABLE j AS SELECT l.id AS id, v, w FROM l JOIN r ON l.id = r.id;
INSERT INTO l0 VALUES ('k', 1);
INSERT INTO r0 VALUES ('k', 2);
ASSERT VALUES j (id, v, w) VALUES ('k', 1, 2);
INSERT INTO r0 VALUES ('k', -1);
ASSERT NULL VALUES j (id) KEY ('k');

--@test: LEFT JOIN of tables: the left row goes
CREATE TABLE l0 (id STRING PRIMARY KEY, v INT) WITH (kafka_topic = 'l0', partitions = 1);
CREATE TABLE r0 (id STRING PRIMARY KEY, w INT) WITH (kafka_topic = 'r0', partitions = 1);
CREATE TABLE l AS SELECT id, v FROM l0 WHERE v > 0;
CREATE TABLE r AS SELECT id, w FROM r0 WHERE w > 0;
CREATE TABLE j AS SELECT l.id AS id, v, w FROM l LEFT JOIN r ON l.id = r.id;
INSERT INTO l0 VALUES ('k', 1);
ASSERT VALUES j (id, v, w) VALUES ('k', 1, NULL);
INSERT INTO r0 VALUES ('k', 2);
ASSERT VALUES j (id, v, w) VALUES ('k', 1, 2);
INSERT INTO l0 VALUES ('k', -1);
ASSERT NULL VALUES j (id) KEY ('k');

--@test: LEFT JOIN of tables: the right row goes
CREATE TABLE l0 (id STRING PRIMARY KEY, v INT) WITH (kafka_topic = 'l0', partitions = 1);
CREATE TABLE r0 (id STRING PRIMARY KEY, w INT) WITH (kafka_topic = 'r0', partitions = 1);
CREATE TABLE l AS SELECT id, v FROM l0 WHERE v > 0;
CREATE TABLE r AS SELECT id, w FROM r0 WHERE w > 0;
CREATE TABLE j AS SELECT l.id AS id, v, w FROM l LEFT JOIN r ON l.id = r.id;
INSERT INTO l0 VALUES ('k', 1);
ASSERT VALUES j (id, v, w) VALUES ('k', 1, NULL);
INSERT INTO r0 VALUES ('k', 2);
ASSERT VALUES j (id, v, w) VALUES ('k', 1, 2);
INSERT INTO r0 VALUES ('k', -1);
ASSERT VALUES j (id, v, w) VALUES ('k', 1, NULL);

--@test: RIGHT JOIN of tables: the left row goes
CREATE TABLE l0 (id STRING PRIMARY KEY, v INT) WITH (kafka_topic = 'l0', partitions = 1);
CREATE TABLE r0 (id STRING PRIMARY KEY, w INT) WITH (kafka_topic = 'r0', partitions = 1);
CREATE TABLE l AS SELECT id, v FROM l0 WHERE v > 0;
CREATE TABLE r AS SELECT id, w FROM r0 WHERE w > 0;
CREATE TABLE j AS SELECT r.id AS id, v, w FROM l RIGHT JOIN r ON l.id = r.id;
INSERT INTO l0 VALUES ('k', 1);
INSERT INTO r0 VALUES ('k', 2);
ASSERT VALUES j (id, v, w) VALUES ('k', 1, 2);
INSERT INTO l0 VALUES ('k', -1);
ASSERT VALUES j (id, v, w) VALUES ('k', NULL, 2);

--@test: RIGHT JOIN of tables: the right row goes
CREATE TABLE l0 (id STRING PRIMARY KEY, v INT) WITH (kafka_topic = 'l0', partitions = 1);
CREATE TABLE r0 (id STRING PRIMARY KEY, w INT) WITH (kafka_topic = 'r0', partitions = 1);
CREATE TABLE l AS SELECT id, v FROM l0 WHERE v > 0;
CREATE TABLE r AS SELECT id, w FROM r0 WHERE w > 0;
CREATE TABLE j AS SELECT r.id AS id, v, w FROM l RIGHT JOIN r ON l.id = r.id;
INSERT INTO l0 VALUES ('k', 1);
INSERT INTO r0 VALUES ('k', 2);
ASSERT VALUES j (id, v, w) VALUES ('k', 1, 2);
INSERT INTO r0 VALUES ('k', -1);
ASSERT NULL VALUES j (id) KEY ('k');

--@test: FULL JOIN of tables: the left row goes
CREATE TABLE l0 (id STRING PRIMARY KEY, v INT) WITH (kafka_topic = 'l0', partitions = 1);
CREATE TABLE r0 (id STRING PRIMARY KEY, w INT) WITH (kafka_topic = 'r0', partitions = 1);
CREATE TABLE l AS SELECT id, v FROM l0 WHERE v > 0;
CREATE TABLE r AS SELECT id, w FROM r0 WHERE w > 0;
CREATE TABLE j AS SELECT COALESCE(l.id, r.id) AS id, v, w FROM l FULL JOIN r ON l.id = r.id;
INSERT INTO l0 VALUES ('k', 1);
ASSERT VALUES j (id, v, w) VALUES ('k', 1, NULL);
INSERT INTO r0 VALUES ('k', 2);
ASSERT VALUES j (id, v, w) VALUES ('k', 1, 2);
INSERT INTO l0 VALUES ('k', -1);
ASSERT VALUES j (id, v, w) VALUES ('k', NULL, 2);

--@test: FULL JOIN of tables: the right row goes
CREATE TABLE l0 (id STRING PRIMARY KEY, v INT) WITH (kafka_topic = 'l0', partitions = 1);
CREATE TABLE r0 (id STRING PRIMARY KEY, w INT) WITH (kafka_topic = 'r0', partitions = 1);
CREATE TABLE l AS SELECT id, v FROM l0 WHERE v > 0;
CREATE TABLE r AS SELECT id, w FROM r0 WHERE w > 0;
CREATE TABLE j AS SELECT COALESCE(l.id, r.id) AS id, v, w FROM l FULL JOIN r ON l.id = r.id;
INSERT INTO l0 VALUES ('k', 1);
ASSERT VALUES j (id, v, w) VALUES ('k', 1, NULL);
INSERT INTO r0 VALUES ('k', 2);
ASSERT VALUES j (id, v, w) VALUES ('k', 1, 2);
INSERT INTO r0 VALUES ('k', -1);
ASSERT VALUES j (id, v, w) VALUES ('k', 1, NULL);

--@test: INNER JOIN by a reference: the left row goes
CREATE TABLE o0 (oid BIGINT PRIMARY KEY, uid STRING, n INT) WITH (kafka_topic = 'o0', partitions = 1);
CREATE TABLE u0 (id STRING PRIMARY KEY, name STRING) WITH (kafka_topic = 'u0', partitions = 1);
CREATE TABLE o AS SELECT oid, uid, n FROM o0 WHERE n > 0;
CREATE TABLE u AS SELECT id, name FROM u0 WHERE name <> 'gone';
CREATE TABLE j AS SELECT o.oid AS oid, u.name AS name, o.n AS n FROM o JOIN u ON o.uid = u.id;
INSERT INTO o0 VALUES (1, 'u', 5);
INSERT INTO u0 VALUES ('u', 'Ada');
ASSERT VALUES j (oid, name, n) VALUES (1, 'Ada', 5);
INSERT INTO o0 VALUES (1, 'u', 0);
ASSERT NULL VALUES j (oid) KEY (1);

--@test: INNER JOIN by a reference: the right row goes
CREATE TABLE o0 (oid BIGINT PRIMARY KEY, uid STRING, n INT) WITH (kafka_topic = 'o0', partitions = 1);
CREATE TABLE u0 (id STRING PRIMARY KEY, name STRING) WITH (kafka_topic = 'u0', partitions = 1);
CREATE TABLE o AS SELECT oid, uid, n FROM o0 WHERE n > 0;
CREATE TABLE u AS SELECT id, name FROM u0 WHERE name <> 'gone';
CREATE TABLE j AS SELECT o.oid AS oid, u.name AS name, o.n AS n FROM o JOIN u ON o.uid = u.id;
INSERT INTO o0 VALUES (1, 'u', 5);
INSERT INTO u0 VALUES ('u', 'Ada');
ASSERT VALUES j (oid, name, n) VALUES (1, 'Ada', 5);
INSERT INTO u0 VALUES ('u', 'gone');
ASSERT NULL VALUES j (oid) KEY (1);

--@test: INNER JOIN by a reference: the reference becomes null
CREATE TABLE o0 (oid BIGINT PRIMARY KEY, uid STRING, n INT) WITH (kafka_topic = 'o0', partitions = 1);
CREATE TABLE u0 (id STRING PRIMARY KEY, name STRING) WITH (kafka_topic = 'u0', partitions = 1);
CREATE TABLE o AS SELECT oid, uid, n FROM o0 WHERE n > 0;
CREATE TABLE u AS SELECT id, name FROM u0 WHERE name <> 'gone';
CREATE TABLE j AS SELECT o.oid AS oid, u.name AS name, o.n AS n FROM o JOIN u ON o.uid = u.id;
INSERT INTO o0 VALUES (1, 'u', 5);
INSERT INTO u0 VALUES ('u', 'Ada');
ASSERT VALUES j (oid, name, n) VALUES (1, 'Ada', 5);
INSERT INTO o0 VALUES (1, NULL, 5);
ASSERT NULL VALUES j (oid) KEY (1);

--@test: LEFT JOIN by a reference: the left row goes
CREATE TABLE o0 (oid BIGINT PRIMARY KEY, uid STRING, n INT) WITH (kafka_topic = 'o0', partitions = 1);
CREATE TABLE u0 (id STRING PRIMARY KEY, name STRING) WITH (kafka_topic = 'u0', partitions = 1);
CREATE TABLE o AS SELECT oid, uid, n FROM o0 WHERE n > 0;
CREATE TABLE u AS SELECT id, name FROM u0 WHERE name <> 'gone';
CREATE TABLE j AS SELECT o.oid AS oid, u.name AS name, o.n AS n FROM o LEFT JOIN u ON o.uid = u.id;
INSERT INTO o0 VALUES (1, 'u', 5);
ASSERT VALUES j (oid, name, n) VALUES (1, NULL, 5);
INSERT INTO u0 VALUES ('u', 'Ada');
ASSERT VALUES j (oid, name, n) VALUES (1, 'Ada', 5);
INSERT INTO o0 VALUES (1, 'u', 0);
ASSERT NULL VALUES j (oid) KEY (1);

--@test: LEFT JOIN by a reference: the right row goes
CREATE TABLE o0 (oid BIGINT PRIMARY KEY, uid STRING, n INT) WITH (kafka_topic = 'o0', partitions = 1);
CREATE TABLE u0 (id STRING PRIMARY KEY, name STRING) WITH (kafka_topic = 'u0', partitions = 1);
CREATE TABLE o AS SELECT oid, uid, n FROM o0 WHERE n > 0;
CREATE TABLE u AS SELECT id, name FROM u0 WHERE name <> 'gone';
CREATE TABLE j AS SELECT o.oid AS oid, u.name AS name, o.n AS n FROM o LEFT JOIN u ON o.uid = u.id;
INSERT INTO o0 VALUES (1, 'u', 5);
ASSERT VALUES j (oid, name, n) VALUES (1, NULL, 5);
INSERT INTO u0 VALUES ('u', 'Ada');
ASSERT VALUES j (oid, name, n) VALUES (1, 'Ada', 5);
INSERT INTO u0 VALUES ('u', 'gone');
ASSERT VALUES j (oid, name, n) VALUES (1, NULL, 5);

--@test: LEFT JOIN by a reference: the reference becomes null
CREATE TABLE o0 (oid BIGINT PRIMARY KEY, uid STRING, n INT) WITH (kafka_topic = 'o0', partitions = 1);
CREATE TABLE u0 (id STRING PRIMARY KEY, name STRING) WITH (kafka_topic = 'u0', partitions = 1);
CREATE TABLE o AS SELECT oid, uid, n FROM o0 WHERE n > 0;
CREATE TABLE u AS SELECT id, name FROM u0 WHERE name <> 'gone';
CREATE TABLE j AS SELECT o.oid AS oid, u.name AS name, o.n AS n FROM o LEFT JOIN u ON o.uid = u.id;
INSERT INTO o0 VALUES (1, 'u', 5);
ASSERT VALUES j (oid, name, n) VALUES (1, NULL, 5);
INSERT INTO u0 VALUES ('u', 'Ada');
ASSERT VALUES j (oid, name, n) VALUES (1, 'Ada', 5);
INSERT INTO o0 VALUES (1, NULL, 5);
ASSERT VALUES j (oid, name, n) VALUES (1, NULL, 5);

--@test: LEFT JOIN of a stream after the row of the table went
CREATE STREAM c (uid STRING KEY, page STRING) WITH (kafka_topic = 'c', partitions = 1);
CREATE TABLE u0 (id STRING PRIMARY KEY, name STRING) WITH (kafka_topic = 'u0', partitions = 1);
CREATE TABLE u AS SELECT id, name FROM u0 WHERE name <> 'gone';
CREATE STREAM j AS SELECT c.uid AS uid, u.name AS name FROM c LEFT JOIN u ON c.uid = u.id;
INSERT INTO u0 VALUES ('u', 'Ada');
INSERT INTO c VALUES ('u', '/a');
ASSERT VALUES j (uid, name) VALUES ('u', 'Ada');
INSERT INTO u0 VALUES ('u', 'gone');
INSERT INTO c VALUES ('u', '/b');
ASSERT VALUES j (uid, name) VALUES ('u', NULL);

--@test: a stream joined with two tables
CREATE STREAM c (uid STRING KEY, page STRING) WITH (kafka_topic = 'c', partitions = 1);
CREATE TABLE u0 (id STRING PRIMARY KEY, name STRING) WITH (kafka_topic = 'u0', partitions = 1);
CREATE TABLE u AS SELECT id, name FROM u0 WHERE name <> 'gone';
CREATE TABLE p (id STRING PRIMARY KEY, title STRING) WITH (kafka_topic = 'p', partitions = 1);
CREATE STREAM j AS SELECT c.uid AS uid, u.name AS name, p.title AS title FROM c JOIN u ON c.uid = u.id LEFT JOIN p ON c.page = p.id;
INSERT INTO u0 VALUES ('u', 'Ada');
INSERT INTO p VALUES ('/a', 'Home');
INSERT INTO c VALUES ('u', '/a');
ASSERT VALUES j (uid, name, title) VALUES ('u', 'Ada', 'Home');
INSERT INTO c VALUES ('u', '/b');
ASSERT VALUES j (uid, name, title) VALUES ('u', 'Ada', NULL);

--@test: LEFT JOIN of streams gives a row alone when its time is over
CREATE STREAM x (id STRING KEY, v INT) WITH (kafka_topic = 'x', partitions = 1);
CREATE STREAM y (id STRING KEY, w INT) WITH (kafka_topic = 'y', partitions = 1);
CREATE STREAM j AS SELECT x.id AS k, v, w FROM x LEFT JOIN y WITHIN 1 SECOND GRACE PERIOD 0 SECONDS ON x.id = y.id;
INSERT INTO x (ROWTIME, id, v) VALUES (1000, 'a', 1);
INSERT INTO y (ROWTIME, id, w) VALUES (1000, 'b', 2);
INSERT INTO x (ROWTIME, id, v) VALUES (60000, 'c', 1);
INSERT INTO y (ROWTIME, id, w) VALUES (60000, 'd', 2);
ASSERT VALUES j (k, v, w) VALUES ('a', 1, NULL);

--@test: RIGHT JOIN of streams gives a row alone when its time is over
CREATE STREAM x (id STRING KEY, v INT) WITH (kafka_topic = 'x', partitions = 1);
CREATE STREAM y (id STRING KEY, w INT) WITH (kafka_topic = 'y', partitions = 1);
CREATE STREAM j AS SELECT y.id AS k, v, w FROM x RIGHT JOIN y WITHIN 1 SECOND GRACE PERIOD 0 SECONDS ON x.id = y.id;
INSERT INTO x (ROWTIME, id, v) VALUES (1000, 'a', 1);
INSERT INTO y (ROWTIME, id, w) VALUES (1000, 'b', 2);
INSERT INTO x (ROWTIME, id, v) VALUES (60000, 'c', 1);
INSERT INTO y (ROWTIME, id, w) VALUES (60000, 'd', 2);
ASSERT VALUES j (k, v, w) VALUES ('b', NULL, 2);

--@test: JOIN of streams, then counted in windows
CREATE STREAM x (id STRING KEY, v INT) WITH (kafka_topic = 'x', partitions = 1);
CREATE STREAM y (id STRING KEY, w INT) WITH (kafka_topic = 'y', partitions = 1);
CREATE TABLE j AS SELECT x.id AS k, count(*) AS n FROM x JOIN y WITHIN 10 SECONDS GRACE PERIOD 0 SECONDS ON x.id = y.id WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 0 SECONDS) GROUP BY x.id EMIT FINAL;
INSERT INTO x (ROWTIME, id, v) VALUES (1000, 'a', 1);
INSERT INTO y (ROWTIME, id, w) VALUES (2000, 'a', 2);
INSERT INTO x (ROWTIME, id, v) VALUES (600000, 'z', 1);
INSERT INTO y (ROWTIME, id, w) VALUES (600000, 'z', 2);
INSERT INTO x (ROWTIME, id, v) VALUES (900000, 'z', 1);
INSERT INTO y (ROWTIME, id, w) VALUES (900000, 'z', 2);
ASSERT VALUES j (k, WINDOWSTART, n) VALUES ('a', 0, 1);
