--@test: a filter and an expression
CREATE STREAM temps (room STRING KEY, celsius DOUBLE) WITH (kafka_topic = 'temps', partitions = 1);
CREATE STREAM warm AS SELECT room, celsius * 9 / 5 + 32 AS fahrenheit FROM temps WHERE celsius > 20;
INSERT INTO temps VALUES ('a', 25), ('b', 10), ('c', 30);
ASSERT VALUES warm (room, fahrenheit) VALUES ('a', 77);
ASSERT VALUES warm (room, fahrenheit) VALUES ('c', 86);

--@test: a star keeps all columns and the key
CREATE STREAM a (id BIGINT KEY, v STRING, w INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM b AS SELECT * FROM a;
INSERT INTO a VALUES (7, 'x', NULL);
ASSERT VALUES b VALUES (7, 'x', NULL);
ASSERT STREAM b (id BIGINT KEY, v STRING, w INT);

--@test: the time of a row goes with it
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM b AS SELECT id, v, ROWTIME AS at FROM a;
INSERT INTO a (ROWTIME, id, v) VALUES (1000, 'x', 1);
ASSERT VALUES b (ROWTIME, id, v, at) VALUES (1000, 'x', 1, 1000);

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

--@test: PARTITION BY an expression with an alias
CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE STREAM upper AS SELECT ucase(page) AS p, user AS visitor FROM clicks PARTITION BY ucase(page);
INSERT INTO clicks VALUES ('u1', '/a');
ASSERT VALUES upper (p, visitor) VALUES ('/A', 'u1');

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

--@test: structs, arrays and maps in ksqlDB's spelling
CREATE TYPE address AS STRUCT<street STRING, city STRING>;
CREATE STREAM people (id STRING KEY, home address, tags ARRAY<STRING>) WITH (kafka_topic = 'people', partitions = 1);
CREATE STREAM homes AS SELECT id, home->city AS city, array_length(tags) AS n FROM people;
INSERT INTO people VALUES ('p', STRUCT(street := 'Main', city := 'Praha'), ARRAY['a', 'b']);
ASSERT VALUES homes (id, city, n) VALUES ('p', 'Praha', 2);

--@test: EXPLODE gives a row for each element
CREATE STREAM a (id STRING KEY, tags ARRAY<STRING>) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM tags AS SELECT id, EXPLODE(tags) AS tag FROM a;
INSERT INTO a VALUES ('x', ARRAY['p', 'q']);
ASSERT VALUES tags (id, tag) VALUES ('x', 'p');
ASSERT VALUES tags (id, tag) VALUES ('x', 'q');

--@test: a key of several columns is JSON
CREATE STREAM a (id STRING, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM b AS SELECT id, v, 1 AS one FROM a PARTITION BY id, v;
INSERT INTO a VALUES ('x', 3);
ASSERT VALUES b (id, v, one) VALUES ('x', 3, 1);
ASSERT STREAM b (id STRING KEY, v INT KEY, one INT) WITH (key_format = 'JSON');

--@test: CASE, LIKE and NULL
CREATE STREAM a (id STRING KEY, v STRING) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM b AS SELECT id, CASE WHEN v LIKE 'a%' THEN 'A' WHEN v IS NULL THEN 'none' ELSE 'other' END AS c FROM a;
INSERT INTO a VALUES ('1', 'abc');
INSERT INTO a VALUES ('2', NULL);
ASSERT VALUES b (id, c) VALUES ('1', 'A');
ASSERT VALUES b (id, c) VALUES ('2', 'none');
