--@test: an expression: ucase(s)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, ucase(s) AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', 'ABC');

--@test: an expression: substring(s, 2, 1)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, substring(s, 2, 1) AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', 'b');

--@test: an expression: len(s)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, len(s) AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', 3);

--@test: an expression: concat(s, '-', id)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, concat(s, '-', id) AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', 'abc-k');

--@test: an expression: s || '!'
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, s || '!' AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', 'abc!');

--@test: an expression: v % 3
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, v % 3 AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', 1);

--@test: an expression: abs(-v)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, abs(-v) AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', 7);

--@test: an expression: round(w, 1)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, round(w, 1) AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', 2.3);

--@test: an expression: CAST(v AS STRING)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, CAST(v AS STRING) AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', '7');

--@test: an expression: v BETWEEN 5 AND 9
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, v BETWEEN 5 AND 9 AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', true);

--@test: an expression: s IN ('x', 'abc')
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, s IN ('x', 'abc') AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', true);

--@test: an expression: NOT b
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, NOT b AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', false);

--@test: an expression: IFNULL(s, 'none')
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, IFNULL(s, 'none') AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', 'abc');

--@test: an expression: NULLIF(v, 7)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, NULLIF(v, 7) AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', NULL);

--@test: an expression: INSTR(s, 'c')
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, INSTR(s, 'c') AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', 3);

--@test: an expression: REPLACE(s, 'b', 'B')
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, REPLACE(s, 'b', 'B') AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', 'aBc');

--@test: an expression: LPAD(s, 5, '.')
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, LPAD(s, 5, '.') AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', '..abc');

--@test: an expression: TRIM('  x ')
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, TRIM('  x ') AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', 'x');

--@test: an expression: SPLIT_TO_MAP('a:1,b:2', ',', ':')['b']
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, SPLIT_TO_MAP('a:1,b:2', ',', ':')['b'] AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', '2');

--@test: an expression: ARRAY_CONTAINS(ARRAY[1, 2], 2)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, ARRAY_CONTAINS(ARRAY[1, 2], 2) AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', true);

--@test: an expression: TRANSFORM(ARRAY[1, 2], x => x + 1)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, TRANSFORM(ARRAY[1, 2], x => x + 1) AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', ARRAY[2, 3]);

--@test: an expression: REDUCE(ARRAY[1, 2, 3], 0, (s, x) => s + x)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, REDUCE(ARRAY[1, 2, 3], 0, (s, x) => s + x) AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', 6);

--@test: an expression: MAP('a' := 1)['a']
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, MAP('a' := 1)['a'] AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', 1);

--@test: an expression: EXTRACTJSONFIELD('{"x": {"y": 5}}', '$.x.y')
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, EXTRACTJSONFIELD('{"x": {"y": 5}}', '$.x.y') AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', '5');

--@test: an expression: FORMAT_TIMESTAMP(TIMESTAMP '2026-11-30 08:09:10', 'yyyy-MM-dd HH:mm', 'UTC')
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, FORMAT_TIMESTAMP(TIMESTAMP '2026-11-30 08:09:10', 'yyyy-MM-dd HH:mm', 'UTC') AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', '2026-11-30 08:09');

--@test: an expression: TIMESTAMPTOSTRING(0, 'yyyy', 'UTC')
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, TIMESTAMPTOSTRING(0, 'yyyy', 'UTC') AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', '1970');

--@test: an expression: DATEADD(DAYS, 1, DATE '2026-11-30')
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, DATEADD(DAYS, 1, DATE '2026-11-30') AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', DATE '2026-12-01');

--@test: an expression: GREATEST(v, 9)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, GREATEST(v, 9) AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', 9);

--@test: an expression: CASE v WHEN 7 THEN 'seven' END
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM r AS SELECT id, CASE v WHEN 7 THEN 'seven' END AS x FROM a;
INSERT INTO a VALUES ('k', 7, 2.25, 'abc', true);
ASSERT VALUES r (id, x) VALUES ('k', 'seven');
