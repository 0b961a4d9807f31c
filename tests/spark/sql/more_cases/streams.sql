--@test: a star keeps all columns and the key
CREATE STREAM a (id BIGINT KEY, v STRING, w INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM b AS SELECT * FROM a;
INSERT INTO a VALUES (7, 'x', NULL);
ASSERT VALUES b VALUES (7, 'x', NULL);
ASSERT STREAM b (id BIGINT KEY, v STRING, w INT);

--@test: a column in `timestamp` is the time of a row
CREATE STREAM a (id STRING KEY, ms BIGINT) WITH (kafka_topic = 'a', partitions = 1, timestamp = 'ms');
CREATE STREAM b AS SELECT id, ROWTIME AS at FROM a;
INSERT INTO a VALUES ('x', 5000);
ASSERT VALUES b (ROWTIME, id, at) VALUES (5000, 'x', 5000);

--@test: PARTITION BY gives another key
CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE STREAM pages AS SELECT page, user AS visitor FROM clicks PARTITION BY page;
INSERT INTO clicks VALUES ('u1', '/a');
ASSERT VALUES pages (page, visitor) VALUES ('/a', 'u1');
ASSERT STREAM pages (page STRING KEY, visitor STRING);

--@test: INSERT INTO a stream from another query
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM b (id STRING KEY, v INT) WITH (kafka_topic = 'b', partitions = 1);
CREATE STREAM both AS SELECT id, v FROM a;
INSERT INTO both SELECT id, v FROM b;
INSERT INTO a VALUES ('x', 1);
ASSERT VALUES both (id, v) VALUES ('x', 1);
INSERT INTO b VALUES ('y', 2);
ASSERT VALUES both (id, v) VALUES ('y', 2);

--@test: UNION ALL of two streams
CREATE STREAM a (id STRING, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM b (id STRING, v INT) WITH (kafka_topic = 'b', partitions = 1);
CREATE STREAM both AS SELECT id, v FROM a UNION ALL SELECT id, v FROM b;
INSERT INTO a VALUES ('x', 1);
ASSERT VALUES both (id, v) VALUES ('x', 1);
INSERT INTO b VALUES ('y', 2);
ASSERT VALUES both (id, v) VALUES ('y', 2);

--@test: a view stores nothing
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE VIEW positive AS SELECT id, v FROM a WHERE v > 0;
CREATE STREAM doubled AS SELECT id, v * 2 AS w FROM positive;
INSERT INTO a VALUES ('x', -1), ('y', 4);
ASSERT VALUES doubled (id, w) VALUES ('y', 8);

--@test: a function of one's own
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE FUNCTION twice(x INT) RETURNS INT RETURN x * 2;
CREATE STREAM b AS SELECT id, twice(v) AS w FROM a;
INSERT INTO a VALUES ('x', 21);
ASSERT VALUES b (id, w) VALUES ('x', 42);

--@test: EXPLODE gives a row for each element
CREATE STREAM a (id STRING KEY, tags ARRAY<STRING>) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM tags AS SELECT id, EXPLODE(tags) AS tag FROM a;
INSERT INTO a VALUES ('x', ARRAY['p', 'q']);
ASSERT VALUES tags (id, tag) VALUES ('x', 'p');
ASSERT VALUES tags (id, tag) VALUES ('x', 'q');

--@test: CASE, LIKE and NULL
CREATE STREAM a (id STRING KEY, v STRING) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM b AS SELECT id, CASE WHEN v LIKE 'a%' THEN 'A' WHEN v IS NULL THEN 'none' ELSE 'other' END AS c FROM a;
INSERT INTO a VALUES ('1', 'abc');
INSERT INTO a VALUES ('2', NULL);
ASSERT VALUES b (id, c) VALUES ('1', 'A');
ASSERT VALUES b (id, c) VALUES ('2', 'none');
