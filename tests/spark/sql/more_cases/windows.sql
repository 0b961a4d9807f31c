--@test: a hopping window
CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE TABLE counts AS
    SELECT user, WINDOWSTART AS ws, count(*) AS n FROM clicks WINDOW HOPPING (SIZE 10 SECONDS, ADVANCE BY 5 SECONDS, GRACE PERIOD 0 SECONDS)
    GROUP BY user EMIT FINAL;
INSERT INTO clicks (ROWTIME, user, page) VALUES (7000, 'u', '/a');
INSERT INTO clicks (ROWTIME, user, page) VALUES (12000, 'u', '/b');
ASSERT VALUES counts (user, ws, n) VALUES ('u', 0, 1);
INSERT INTO clicks (ROWTIME, user, page) VALUES (17000, 'w', '/b');
ASSERT VALUES counts (user, ws, n) VALUES ('u', 5000, 2);

--@test: HAVING of a window that no longer holds
CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE TABLE rare AS SELECT user, count(*) AS n FROM clicks WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY user HAVING count(*) < 2;
INSERT INTO clicks (ROWTIME, user, page) VALUES (1000, 'u', '/a');
ASSERT VALUES rare (user, WINDOWSTART, WINDOWEND, n) VALUES ('u', 0, 10000, 1);
INSERT INTO clicks (ROWTIME, user, page) VALUES (2000, 'u', '/b');
ASSERT NULL VALUES rare (user, WINDOWSTART, WINDOWEND) KEY ('u', 0, 10000);

--@test: Spark's own window, without a clause
CREATE STREAM clicks (user STRING KEY, at TIMESTAMP) WITH (kafka_topic = 'clicks', partitions = 1, timestamp = 'at');
CREATE TABLE counts AS SELECT user, window(at, '10 seconds') AS w, count(*) AS n FROM clicks GROUP BY user, window(at, '10 seconds');
INSERT INTO clicks VALUES ('u', TIMESTAMP '1970-01-01 00:00:01');
ASSERT VALUES counts (user, n) VALUES ('u', 1);

--@test: two keys in one window
CREATE STREAM c (id STRING KEY, v INT) WITH (kafka_topic = 'c', partitions = 1);
CREATE TABLE r AS SELECT id, sum(v) AS x FROM c WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY id;
INSERT INTO c (ROWTIME, id, v) VALUES (1, 'a', 1);
ASSERT VALUES r (id, WINDOWSTART, x) VALUES ('a', 0, 1);
INSERT INTO c (ROWTIME, id, v) VALUES (2, 'b', 5);
ASSERT VALUES r (id, WINDOWSTART, x) VALUES ('b', 0, 5);

--@test: each change of a hopping window
CREATE STREAM c (id STRING KEY, v INT) WITH (kafka_topic = 'c', partitions = 1);
CREATE TABLE r AS SELECT id, count(*) AS n FROM c WINDOW HOPPING (SIZE 20 SECONDS, ADVANCE BY 10 SECONDS) GROUP BY id HAVING WINDOWSTART = 0;
INSERT INTO c (ROWTIME, id, v) VALUES (5000, 'a', 1);
ASSERT VALUES r (id, WINDOWSTART, WINDOWEND, n) VALUES ('a', 0, 20000, 1);
INSERT INTO c (ROWTIME, id, v) VALUES (15000, 'a', 1);
ASSERT VALUES r (id, WINDOWSTART, n) VALUES ('a', 0, 2);

--@test: HAVING with EMIT FINAL
CREATE STREAM c (id STRING KEY, v INT) WITH (kafka_topic = 'c', partitions = 1);
CREATE TABLE r AS SELECT id, count(*) AS n FROM c WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 0 SECONDS) GROUP BY id HAVING count(*) > 1 EMIT FINAL;
INSERT INTO c (ROWTIME, id, v) VALUES (1, 'a', 1), (2, 'b', 1), (3, 'b', 1);
INSERT INTO c (ROWTIME, id, v) VALUES (11000, 'z', 1);
ASSERT VALUES r (id, WINDOWSTART, n) VALUES ('b', 0, 2);

--@test: a session that two rows join
CREATE STREAM c (id STRING KEY, v INT) WITH (kafka_topic = 'c', partitions = 1);
CREATE TABLE r AS SELECT id, sum(v) AS x FROM c WINDOW SESSION (10 SECONDS, GRACE PERIOD 10 SECONDS) GROUP BY id EMIT FINAL;
INSERT INTO c (ROWTIME, id, v) VALUES (1000, 'a', 1);
INSERT INTO c (ROWTIME, id, v) VALUES (15000, 'a', 2);
INSERT INTO c (ROWTIME, id, v) VALUES (8000, 'a', 4);
INSERT INTO c (ROWTIME, id, v) VALUES (90000, 'z', 1);
ASSERT VALUES r (id, WINDOWSTART, x) VALUES ('a', 1000, 7);

--@test: a window by an expression
CREATE STREAM c (id STRING KEY, v INT) WITH (kafka_topic = 'c', partitions = 1);
CREATE TABLE r AS SELECT v % 2 AS odd, count(*) AS n FROM c WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY v % 2;
INSERT INTO c (ROWTIME, id, v) VALUES (1, 'a', 3);
ASSERT VALUES r (odd, WINDOWSTART, n) VALUES (1, 0, 1);

--@test: a window of two columns
CREATE STREAM c (id STRING KEY, v INT) WITH (kafka_topic = 'c', partitions = 1);
CREATE TABLE r AS SELECT id, v, count(*) AS n FROM c WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY id, v;
INSERT INTO c (ROWTIME, id, v) VALUES (1, 'a', 3);
ASSERT VALUES r (id, v, WINDOWSTART, n) VALUES ('a', 3, 0, 1);

--@test: a windowed table is read again
CREATE STREAM c (id STRING KEY, v INT) WITH (kafka_topic = 'c', partitions = 1);
CREATE TABLE r AS SELECT id, count(*) AS n FROM c WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY id;
CREATE TABLE q AS SELECT id, WINDOWSTART, WINDOWEND, n * 10 AS m FROM r;
INSERT INTO c (ROWTIME, id, v) VALUES (1, 'a', 3);
ASSERT VALUES q (id, WINDOWSTART, m) VALUES ('a', 0, 10);

--@test: windows summed up again
CREATE STREAM c (id STRING KEY, v INT) WITH (kafka_topic = 'c', partitions = 1);
CREATE TABLE r AS SELECT id, count(*) AS n FROM c WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY id;
CREATE TABLE q AS SELECT id, max(n) AS most FROM r GROUP BY id;
INSERT INTO c (ROWTIME, id, v) VALUES (1, 'a', 3), (2, 'a', 3);
ASSERT VALUES q (id, most) VALUES ('a', 2);
INSERT INTO c (ROWTIME, id, v) VALUES (20000, 'a', 3), (20001, 'a', 3), (20002, 'a', 3);
ASSERT VALUES q (id, most) VALUES ('a', 3);
