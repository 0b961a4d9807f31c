--@test: a value of type BOOLEAN in JSON
CREATE STREAM a (id STRING KEY, x BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT * FROM a;
INSERT INTO a VALUES ('k', true);
ASSERT VALUES r VALUES ('k', true);

--@test: a value of type TINYINT in JSON
CREATE STREAM a (id STRING KEY, x TINYINT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT * FROM a;
INSERT INTO a VALUES ('k', -5);
ASSERT VALUES r VALUES ('k', -5);

--@test: a value of type SMALLINT in JSON
CREATE STREAM a (id STRING KEY, x SMALLINT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT * FROM a;
INSERT INTO a VALUES ('k', -300);
ASSERT VALUES r VALUES ('k', -300);

--@test: a value of type INT in JSON
CREATE STREAM a (id STRING KEY, x INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT * FROM a;
INSERT INTO a VALUES ('k', 2147483647);
ASSERT VALUES r VALUES ('k', 2147483647);

--@test: a value of type BIGINT in JSON
CREATE STREAM a (id STRING KEY, x BIGINT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT * FROM a;
INSERT INTO a VALUES ('k', 9007199254740993);
ASSERT VALUES r VALUES ('k', 9007199254740993);

--@test: a value of type FLOAT in JSON
CREATE STREAM a (id STRING KEY, x FLOAT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT * FROM a;
INSERT INTO a VALUES ('k', 0.5);
ASSERT VALUES r VALUES ('k', 0.5);

--@test: a value of type DOUBLE in JSON
CREATE STREAM a (id STRING KEY, x DOUBLE) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT * FROM a;
INSERT INTO a VALUES ('k', -1.25);
ASSERT VALUES r VALUES ('k', -1.25);

--@test: a value of type DECIMAL(10, 2) in JSON
CREATE STREAM a (id STRING KEY, x DECIMAL(10, 2)) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT * FROM a;
INSERT INTO a VALUES ('k', 12345678.91);
ASSERT VALUES r VALUES ('k', 12345678.91);

--@test: a value of type STRING in JSON
CREATE STREAM a (id STRING KEY, x STRING) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT * FROM a;
INSERT INTO a VALUES ('k', 'ä€');
ASSERT VALUES r VALUES ('k', 'ä€');

--@test: a value of type DATE in JSON
CREATE STREAM a (id STRING KEY, x DATE) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT * FROM a;
INSERT INTO a VALUES ('k', DATE '2026-02-28');
ASSERT VALUES r VALUES ('k', DATE '2026-02-28');

--@test: a value of type TIMESTAMP in JSON
CREATE STREAM a (id STRING KEY, x TIMESTAMP) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT * FROM a;
INSERT INTO a VALUES ('k', TIMESTAMP '2026-11-30 08:00:00.123');
ASSERT VALUES r VALUES ('k', TIMESTAMP '2026-11-30 08:00:00.123');

--@test: a value of type ARRAY<INT> in JSON
CREATE STREAM a (id STRING KEY, x ARRAY<INT>) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT * FROM a;
INSERT INTO a VALUES ('k', ARRAY[1, NULL, 3]);
ASSERT VALUES r VALUES ('k', ARRAY[1, NULL, 3]);

--@test: a value of type MAP<STRING, INT> in JSON
CREATE STREAM a (id STRING KEY, x MAP<STRING, INT>) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT * FROM a;
INSERT INTO a VALUES ('k', MAP('a' := 1));
ASSERT VALUES r VALUES ('k', MAP('a' := 1));

--@test: a value of type STRUCT<x INT, y STRING> in JSON
CREATE STREAM a (id STRING KEY, x STRUCT<x INT, y STRING>) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT * FROM a;
INSERT INTO a VALUES ('k', STRUCT(x := 1, y := 'z'));
ASSERT VALUES r VALUES ('k', STRUCT(x := 1, y := 'z'));

--@test: a value of type ARRAY<STRUCT<x INT>> in JSON
CREATE STREAM a (id STRING KEY, x ARRAY<STRUCT<x INT>>) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT * FROM a;
INSERT INTO a VALUES ('k', ARRAY[STRUCT(x := 1)]);
ASSERT VALUES r VALUES ('k', ARRAY[STRUCT(x := 1)]);

--@test: the format DELIMITED with x INT, y STRING
CREATE STREAM a (id STRING KEY, x INT, y STRING) WITH (kafka_topic = 'a', partitions = 1, value_format = 'DELIMITED');
CREATE STREAM r AS SELECT * FROM a;
INSERT INTO a VALUES ('k', 3, 'a,b');
ASSERT VALUES r VALUES ('k', 3, 'a,b');
ASSERT STREAM r WITH (value_format = 'DELIMITED');

--@test: the format KAFKA with x BIGINT
CREATE STREAM a (id STRING KEY, x BIGINT) WITH (kafka_topic = 'a', partitions = 1, value_format = 'KAFKA');
CREATE STREAM r AS SELECT * FROM a;
INSERT INTO a VALUES ('k', -7);
ASSERT VALUES r VALUES ('k', -7);
ASSERT STREAM r WITH (value_format = 'KAFKA');

--@test: the format KAFKA with x STRING
CREATE STREAM a (id STRING KEY, x STRING) WITH (kafka_topic = 'a', partitions = 1, value_format = 'KAFKA');
CREATE STREAM r AS SELECT * FROM a;
INSERT INTO a VALUES ('k', 'ä');
ASSERT VALUES r VALUES ('k', 'ä');
ASSERT STREAM r WITH (value_format = 'KAFKA');

--@test: the format KAFKA with x DOUBLE
CREATE STREAM a (id STRING KEY, x DOUBLE) WITH (kafka_topic = 'a', partitions = 1, value_format = 'KAFKA');
CREATE STREAM r AS SELECT * FROM a;
INSERT INTO a VALUES ('k', 0.25);
ASSERT VALUES r VALUES ('k', 0.25);
ASSERT STREAM r WITH (value_format = 'KAFKA');

--@test: the format JSON with x INT, y STRING
CREATE STREAM a (id STRING KEY, x INT, y STRING) WITH (kafka_topic = 'a', partitions = 1, value_format = 'JSON');
CREATE STREAM r AS SELECT * FROM a;
INSERT INTO a VALUES ('k', 3, NULL);
ASSERT VALUES r VALUES ('k', 3, NULL);
ASSERT STREAM r WITH (value_format = 'JSON');

--@test: a key of type INT in the format KAFKA
CREATE TABLE a (id INT PRIMARY KEY, v INT) WITH (kafka_topic = 'a', partitions = 1, key_format = 'KAFKA');
CREATE TABLE r AS SELECT id, v + 1 AS w FROM a;
INSERT INTO a VALUES (-3, 1);
ASSERT VALUES r (id, w) VALUES (-3, 2);

--@test: a key of type BIGINT in the format KAFKA
CREATE TABLE a (id BIGINT PRIMARY KEY, v INT) WITH (kafka_topic = 'a', partitions = 1, key_format = 'KAFKA');
CREATE TABLE r AS SELECT id, v + 1 AS w FROM a;
INSERT INTO a VALUES (-3, 1);
ASSERT VALUES r (id, w) VALUES (-3, 2);

--@test: a key of type DOUBLE in the format KAFKA
CREATE TABLE a (id DOUBLE PRIMARY KEY, v INT) WITH (kafka_topic = 'a', partitions = 1, key_format = 'KAFKA');
CREATE TABLE r AS SELECT id, v + 1 AS w FROM a;
INSERT INTO a VALUES (0.5, 1);
ASSERT VALUES r (id, w) VALUES (0.5, 2);

--@test: a key of type STRING in the format JSON
CREATE TABLE a (id STRING PRIMARY KEY, v INT) WITH (kafka_topic = 'a', partitions = 1, key_format = 'JSON');
CREATE TABLE r AS SELECT id, v + 1 AS w FROM a;
INSERT INTO a VALUES ('x', 1);
ASSERT VALUES r (id, w) VALUES ('x', 2);

--@test: a key of type STRUCT<p INT, q STRING> in the format JSON
CREATE TABLE a (id STRUCT<p INT, q STRING> PRIMARY KEY, v INT) WITH (kafka_topic = 'a', partitions = 1, key_format = 'JSON');
CREATE TABLE r AS SELECT id, v + 1 AS w FROM a;
INSERT INTO a VALUES (STRUCT(p := 1, q := 'z'), 1);
ASSERT VALUES r (id, w) VALUES (STRUCT(p := 1, q := 'z'), 2);

--@test: a key of type STRING in the format DELIMITED
CREATE TABLE a (id STRING PRIMARY KEY, v INT) WITH (kafka_topic = 'a', partitions = 1, key_format = 'DELIMITED');
CREATE TABLE r AS SELECT id, v + 1 AS w FROM a;
INSERT INTO a VALUES ('x', 1);
ASSERT VALUES r (id, w) VALUES ('x', 2);
