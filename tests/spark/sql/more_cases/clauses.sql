--@test: WITHIN counts before and after
CREATE STREAM x (id STRING KEY, v INT) WITH (kafka_topic = 'x', partitions = 1);
CREATE STREAM y (id STRING KEY, w INT) WITH (kafka_topic = 'y', partitions = 1);
CREATE STREAM j AS SELECT x.id AS k, v, w FROM x JOIN y WITHIN (1 SECOND, 5 SECONDS) ON x.id = y.id;
INSERT INTO x (ROWTIME, id, v) VALUES (10000, 'a', 1);
INSERT INTO y (ROWTIME, id, w) VALUES (8000, 'a', 1), (16000, 'a', 2), (9000, 'a', 3);
ASSERT VALUES j (k, v, w) VALUES ('a', 1, 3);
INSERT INTO y (ROWTIME, id, w) VALUES (15000, 'a', 4);
ASSERT VALUES j (k, v, w) VALUES ('a', 1, 4);

--@test: a third stream is within the time of the joined rows
CREATE STREAM x (id STRING KEY, v INT) WITH (kafka_topic = 'x', partitions = 1);
CREATE STREAM y (id STRING KEY, w INT) WITH (kafka_topic = 'y', partitions = 1);
CREATE STREAM z (id STRING KEY, q INT) WITH (kafka_topic = 'z', partitions = 1);
CREATE STREAM j AS SELECT x.id AS k, v, w, q FROM x JOIN y WITHIN 10 SECONDS ON x.id = y.id JOIN z WITHIN 10 SECONDS ON z.id = x.id;
INSERT INTO x (ROWTIME, id, v) VALUES (1000, 'a', 1);
INSERT INTO y (ROWTIME, id, w) VALUES (9000, 'a', 2);
INSERT INTO z (ROWTIME, id, q) VALUES (20000, 'a', 3);
INSERT INTO z (ROWTIME, id, q) VALUES (18000, 'a', 4);
ASSERT VALUES j (ROWTIME, k, v, w, q) VALUES (18000, 'a', 1, 2, 4);

--@test: FULL JOIN of streams gives each row alone when its time is over
CREATE STREAM x (id STRING KEY, v INT) WITH (kafka_topic = 'x', partitions = 1);
CREATE STREAM y (id STRING KEY, w INT) WITH (kafka_topic = 'y', partitions = 1);
CREATE STREAM j AS SELECT COALESCE(x.id, y.id) AS k, v, w FROM x FULL OUTER JOIN y WITHIN 1 SECOND GRACE PERIOD 0 SECONDS ON x.id = y.id PARTITION BY COALESCE(x.id, y.id);
CREATE TABLE r AS SELECT k, count(*) AS n FROM j WHERE v IS NULL OR w IS NULL GROUP BY k;
INSERT INTO x (ROWTIME, id, v) VALUES (1000, 'a', 1);
INSERT INTO y (ROWTIME, id, w) VALUES (1000, 'a', 2);
ASSERT VALUES j (k, v, w) VALUES ('a', 1, 2);
INSERT INTO x (ROWTIME, id, v) VALUES (5000, 'b', 1);
INSERT INTO x (ROWTIME, id, v) VALUES (60000, 'd', 1);
INSERT INTO y (ROWTIME, id, w) VALUES (60000, 'd', 2);
ASSERT VALUES r (k, n) VALUES ('b', 1);

--@test: GROUP BY and PARTITION BY of a list in brackets
CREATE STREAM a (x STRING, y INT, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT x, y, sum(v) AS s FROM a GROUP BY (x, y);
CREATE STREAM p AS SELECT y, x, v FROM a PARTITION BY (y, x);
INSERT INTO a VALUES ('k', 2, 5);
ASSERT VALUES r (x, y, s) VALUES ('k', 2, 5);
ASSERT VALUES p (y, x, v) VALUES (2, 'k', 5);
ASSERT TABLE r (x STRING PRIMARY KEY, y INT PRIMARY KEY, s BIGINT);

--@test: LATERAL VIEW and UNION go to Spark as written
CREATE STREAM a (id STRING, tags ARRAY<STRING>) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, tag FROM a LATERAL VIEW explode(tags) t AS tag;
INSERT INTO a VALUES ('k', ARRAY['p']);
ASSERT VALUES r (id, tag) VALUES ('k', 'p');

--@test: times as texts
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, v FROM a WHERE ROWTIME >= '1970-01-01T00:00:02';
CREATE TABLE w AS SELECT id, count(*) AS n FROM a WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY id HAVING WINDOWSTART >= '1970-01-01T00:00:02';
INSERT INTO a (ROWTIME, id, v) VALUES (1999, 'k', 1), (2000, 'k', 2);
ASSERT VALUES r (id, v) VALUES ('k', 2);
ASSERT VALUES w (id, WINDOWSTART, n) VALUES ('k', 2000, 1);

--@test: queries that end
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE t (id STRING PRIMARY KEY, g STRING) WITH (kafka_topic = 't', partitions = 1);
INSERT INTO a VALUES ('k', 1), ('l', 2);
INSERT INTO t VALUES ('k', 'g');
SELECT DISTINCT v FROM a ORDER BY v DESC LIMIT 1;
SELECT id, v FROM a UNION SELECT id, 0 FROM t;
SELECT * FROM a JOIN t USING (id);
SELECT a.id, t.g FROM a LEFT JOIN t ON a.id = t.id;
SELECT t.id, count(*) FROM t GROUP BY t.id HAVING count(*) > 0;
SELECT id, count(*) FROM a WINDOW TUMBLING (SIZE 1 MINUTE, RETENTION 1 DAY, GRACE PERIOD 1 HOUR) GROUP BY id;
SELECT * FROM range(3);
SELECT 1 AS one;

--@test: the dialect of ksqlDB
SET 'sql.dialect' = 'ksql';
CREATE STREAM a (id VARCHAR KEY, list ARRAY<INT>, s VARCHAR) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, list[1] AS "first one", s || '!' AS joined, s + '?' AS summed, CAST('x' AS INT) AS nothing FROM a;
INSERT INTO a VALUES ('k', ARRAY[7, 8], NULL);
INSERT INTO a VALUES ('k', ARRAY[7, 8], 's');
ASSERT VALUES r (id, `first one`, joined, summed, nothing) VALUES ('k', 7, '!', NULL, NULL);
ASSERT VALUES r (id, `first one`, joined, summed, nothing) VALUES ('k', 7, 's!', 's?', NULL);
