--@test: late rows change a window until its grace period is over
CREATE STREAM c (id STRING KEY, v INT) WITH (kafka_topic = 'c', partitions = 1);
CREATE TABLE r AS SELECT id, count(*) AS n FROM c WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 5 SECONDS) GROUP BY id;
INSERT INTO c (ROWTIME, id, v) VALUES (1000, 'a', 1);
ASSERT VALUES r (id, WINDOWSTART, n) VALUES ('a', 0, 1);
INSERT INTO c (ROWTIME, id, v) VALUES (12000, 'b', 1);
ASSERT VALUES r (id, WINDOWSTART, n) VALUES ('b', 10000, 1);
INSERT INTO c (ROWTIME, id, v) VALUES (2000, 'a', 1);
ASSERT VALUES r (id, WINDOWSTART, n) VALUES ('a', 0, 2);
INSERT INTO c (ROWTIME, id, v) VALUES (20000, 'b', 1);
ASSERT VALUES r (id, WINDOWSTART, n) VALUES ('b', 20000, 1);
INSERT INTO c (ROWTIME, id, v) VALUES (3000, 'a', 1);
INSERT INTO c (ROWTIME, id, v) VALUES (21000, 'b', 1);
ASSERT VALUES r (id, WINDOWSTART, n) VALUES ('b', 20000, 2);

--@test: a row that is too late joins no row of another stream
CREATE STREAM x (id STRING KEY, v INT) WITH (kafka_topic = 'x', partitions = 1);
CREATE STREAM y (id STRING KEY, w INT) WITH (kafka_topic = 'y', partitions = 1);
CREATE STREAM j AS SELECT x.id AS k, v, w FROM x JOIN y WITHIN 5 SECONDS GRACE PERIOD 10 SECONDS ON x.id = y.id;
INSERT INTO x (ROWTIME, id, v) VALUES (1000, 'a', 1);
INSERT INTO x (ROWTIME, id, v) VALUES (9000, 'b', 2);
INSERT INTO y (ROWTIME, id, w) VALUES (8000, 'z', 0);
INSERT INTO y (ROWTIME, id, w) VALUES (1500, 'a', 3);
ASSERT VALUES j (k, v, w) VALUES ('a', 1, 3);
INSERT INTO x (ROWTIME, id, v) VALUES (60000, 'c', 4);
INSERT INTO y (ROWTIME, id, w) VALUES (60000, 'z', 0);
INSERT INTO y (ROWTIME, id, w) VALUES (9000, 'b', 5);
INSERT INTO y (ROWTIME, id, w) VALUES (61000, 'c', 6);
ASSERT VALUES j (k, v, w) VALUES ('c', 4, 6);

--@test: a row that is too late begins no session
CREATE STREAM c (id STRING KEY, v INT) WITH (kafka_topic = 'c', partitions = 1);
CREATE TABLE r AS SELECT id, count(*) AS n FROM c WINDOW SESSION (5 SECONDS, GRACE PERIOD 5 SECONDS) GROUP BY id EMIT FINAL;
INSERT INTO c (ROWTIME, id, v) VALUES (1000, 'a', 1);
INSERT INTO c (ROWTIME, id, v) VALUES (30000, 'b', 1);
ASSERT VALUES r (id, WINDOWSTART, WINDOWEND, n) VALUES ('a', 1000, 6000, 1);
INSERT INTO c (ROWTIME, id, v) VALUES (2000, 'a', 1);
INSERT INTO c (ROWTIME, id, v) VALUES (60000, 'b', 1);
ASSERT VALUES r (id, WINDOWSTART, WINDOWEND, n) VALUES ('b', 30000, 35000, 1);

--@test: rows of a table are never too late
CREATE TABLE t (id STRING PRIMARY KEY, g STRING) WITH (kafka_topic = 't', partitions = 1);
CREATE TABLE r AS SELECT g, count(*) AS n FROM t GROUP BY g;
INSERT INTO t (ROWTIME, id, g) VALUES (86400000, 'a', 'g');
ASSERT VALUES r (g, n) VALUES ('g', 1);
INSERT INTO t (ROWTIME, id, g) VALUES (1, 'b', 'g');
ASSERT VALUES r (g, n) VALUES ('g', 2);
