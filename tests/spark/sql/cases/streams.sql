--@test: a filter and an expression
CREATE STREAM temps (room STRING KEY, celsius DOUBLE) WITH (kafka_topic = 'temps', partitions = 1);
CREATE STREAM warm AS SELECT room, celsius * 9 / 5 + 32 AS fahrenheit FROM temps WHERE celsius > 20;
INSERT INTO temps VALUES ('a', 25), ('b', 10), ('c', 30);
ASSERT VALUES warm (room, fahrenheit) VALUES ('a', 77);
ASSERT VALUES warm (room, fahrenheit) VALUES ('c', 86);

--@test: the time of a row goes with it
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM b AS SELECT id, v, ROWTIME AS at FROM a;
INSERT INTO a (ROWTIME, id, v) VALUES (1000, 'x', 1);
ASSERT VALUES b (ROWTIME, id, v, at) VALUES (1000, 'x', 1, 1000);

--@test: PARTITION BY an expression with an alias
CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE STREAM upper AS SELECT ucase(page) AS p, user AS visitor FROM clicks PARTITION BY ucase(page);
INSERT INTO clicks VALUES ('u1', '/a');
ASSERT VALUES upper (p, visitor) VALUES ('/A', 'u1');

--@test: structs, arrays and maps in ksqlDB's spelling
CREATE TYPE address AS STRUCT<street STRING, city STRING>;
CREATE STREAM people (id STRING KEY, home address, tags ARRAY<STRING>) WITH (kafka_topic = 'people', partitions = 1);
CREATE STREAM homes AS SELECT id, home->city AS city, array_length(tags) AS n FROM people;
INSERT INTO people VALUES ('p', STRUCT(street := 'Main', city := 'Praha'), ARRAY['a', 'b']);
ASSERT VALUES homes (id, city, n) VALUES ('p', 'Praha', 2);

--@test: a key of several columns is JSON
CREATE STREAM a (id STRING, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM b AS SELECT id, v, 1 AS one FROM a PARTITION BY id, v;
INSERT INTO a VALUES ('x', 3);
ASSERT VALUES b (id, v, one) VALUES ('x', 3, 1);
ASSERT STREAM b (id STRING KEY, v INT KEY, one INT) WITH (key_format = 'JSON');
