--@test: of a stream: count(*)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, count(*) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', 4);

--@test: of a stream: count(v)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, count(v) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', 3);

--@test: of a stream: count(DISTINCT v)
--@expected.error: Consider using approx_count_distinct
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, count(DISTINCT v) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', 2);

--@test: of a stream: sum(v)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, sum(v) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', 7);

--@test: of a stream: min(v)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, min(v) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', 1);

--@test: of a stream: max(v)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, max(v) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', 3);

--@test: of a stream: avg(w)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, avg(w) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', 1.1666666666666667);

--@test: of a stream: max_by(s, v)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, max_by(s, v) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', 'd');

--@test: of a stream: min_by(s, v)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, min_by(s, v) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', 'b');

--@test: of a stream: bool_or(b)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, bool_or(b) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', true);

--@test: of a stream: bool_and(b)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, bool_and(b) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', false);

--@test: of a stream: count_if(v > 1)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, count_if(v > 1) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', 2);

--@test: of a stream: first(v)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, first(v) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', 3);

--@test: of a stream: last(s)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, last(s) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', 'd');

--@test: of a stream: any_value(id)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, any_value(id) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', 'k');

--@test: of a stream: median(v)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, median(v) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', 3.0);

--@test: of a stream: approx_count_distinct(v)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, approx_count_distinct(v) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', 2);

--@test: of a stream: sum(v) + count(*) * 2
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, sum(v) + count(*) * 2 AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', 15);

--@test: of a stream: coalesce(sum(v), 0)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, coalesce(sum(v), 0) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', 7);

--@test: of a stream: max(v) FILTER (WHERE v < 3)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, max(v) FILTER (WHERE v < 3) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', 1);

--@test: of a stream: EARLIEST_BY_OFFSET(s)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, EARLIEST_BY_OFFSET(s) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', 'a');

--@test: of a stream: LATEST_BY_OFFSET(s)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, LATEST_BY_OFFSET(s) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', 'd');

--@test: of a stream: COUNT_DISTINCT(v)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, COUNT_DISTINCT(v) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', 2);

--@test: of a stream: sort_array(collect_list(v))
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, sort_array(collect_list(v)) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', ARRAY[1, 3, 3]);

--@test: of a stream: sort_array(collect_set(v))
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, sort_array(collect_set(v)) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', ARRAY[1, 3]);

--@test: of a stream: TOPK(v, 2)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, TOPK(v, 2) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', ARRAY[3, 3]);

--@test: of a stream: TOPKDISTINCT(v, 2)
CREATE STREAM a (id STRING KEY, v INT, w DOUBLE, s STRING, b BOOLEAN) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE r AS SELECT id, TOPKDISTINCT(v, 2) AS x FROM a GROUP BY id;
INSERT INTO a VALUES ('k', 3, 1.5, 'a', true), ('k', 1, 0.5, 'b', false), ('k', NULL, NULL, 'c', NULL), ('k', 3, 1.5, 'd', true);
ASSERT VALUES r (id, x) VALUES ('k', ARRAY[3, 1]);

--@test: of a table: count(*)
CREATE TABLE t (id STRING PRIMARY KEY, g STRING, v INT) WITH (kafka_topic = 't', partitions = 1);
CREATE TABLE r AS SELECT g, count(*) AS x FROM t GROUP BY g;
INSERT INTO t VALUES ('1', 'g', 3), ('2', 'g', 4);
ASSERT VALUES r (g, x) VALUES ('g', 2);
INSERT INTO t VALUES ('1', NULL, 3);
ASSERT VALUES r (g, x) VALUES ('g', 1);

--@test: of a table: count(v)
CREATE TABLE t (id STRING PRIMARY KEY, g STRING, v INT) WITH (kafka_topic = 't', partitions = 1);
CREATE TABLE r AS SELECT g, count(v) AS x FROM t GROUP BY g;
INSERT INTO t VALUES ('1', 'g', 3), ('2', 'g', 4);
ASSERT VALUES r (g, x) VALUES ('g', 2);
INSERT INTO t VALUES ('1', NULL, 3);
ASSERT VALUES r (g, x) VALUES ('g', 1);

--@test: of a table: sum(v)
CREATE TABLE t (id STRING PRIMARY KEY, g STRING, v INT) WITH (kafka_topic = 't', partitions = 1);
CREATE TABLE r AS SELECT g, sum(v) AS x FROM t GROUP BY g;
INSERT INTO t VALUES ('1', 'g', 3), ('2', 'g', 4);
ASSERT VALUES r (g, x) VALUES ('g', 7);
INSERT INTO t VALUES ('1', NULL, 3);
ASSERT VALUES r (g, x) VALUES ('g', 4);

--@test: of a table: avg(v)
CREATE TABLE t (id STRING PRIMARY KEY, g STRING, v INT) WITH (kafka_topic = 't', partitions = 1);
CREATE TABLE r AS SELECT g, avg(v) AS x FROM t GROUP BY g;
INSERT INTO t VALUES ('1', 'g', 3), ('2', 'g', 4);
ASSERT VALUES r (g, x) VALUES ('g', 3.5);
INSERT INTO t VALUES ('1', NULL, 3);
ASSERT VALUES r (g, x) VALUES ('g', 4.0);

--@test: of a table: min(v)
CREATE TABLE t (id STRING PRIMARY KEY, g STRING, v INT) WITH (kafka_topic = 't', partitions = 1);
CREATE TABLE r AS SELECT g, min(v) AS x FROM t GROUP BY g;
INSERT INTO t VALUES ('1', 'g', 3), ('2', 'g', 4);
ASSERT VALUES r (g, x) VALUES ('g', 3);
INSERT INTO t VALUES ('1', NULL, 3);
ASSERT VALUES r (g, x) VALUES ('g', 4);

--@test: of a table: max(v)
CREATE TABLE t (id STRING PRIMARY KEY, g STRING, v INT) WITH (kafka_topic = 't', partitions = 1);
CREATE TABLE r AS SELECT g, max(v) AS x FROM t GROUP BY g;
INSERT INTO t VALUES ('1', 'g', 3), ('2', 'g', 4);
ASSERT VALUES r (g, x) VALUES ('g', 4);
INSERT INTO t VALUES ('2', NULL, 4);
ASSERT VALUES r (g, x) VALUES ('g', 3);

--@test: of a table: count(DISTINCT v)
CREATE TABLE t (id STRING PRIMARY KEY, g STRING, v INT) WITH (kafka_topic = 't', partitions = 1);
CREATE TABLE r AS SELECT g, count(DISTINCT v) AS x FROM t GROUP BY g;
INSERT INTO t VALUES ('1', 'g', 3), ('2', 'g', 4);
ASSERT VALUES r (g, x) VALUES ('g', 2);
INSERT INTO t VALUES ('1', NULL, 3);
ASSERT VALUES r (g, x) VALUES ('g', 1);

--@test: of a table: sort_array(collect_list(v))
CREATE TABLE t (id STRING PRIMARY KEY, g STRING, v INT) WITH (kafka_topic = 't', partitions = 1);
CREATE TABLE r AS SELECT g, sort_array(collect_list(v)) AS x FROM t GROUP BY g;
INSERT INTO t VALUES ('1', 'g', 3), ('2', 'g', 4);
ASSERT VALUES r (g, x) VALUES ('g', ARRAY[3, 4]);
INSERT INTO t VALUES ('1', NULL, 3);
ASSERT VALUES r (g, x) VALUES ('g', ARRAY[4]);

--@test: of a table: sort_array(collect_set(v))
CREATE TABLE t (id STRING PRIMARY KEY, g STRING, v INT) WITH (kafka_topic = 't', partitions = 1);
CREATE TABLE r AS SELECT g, sort_array(collect_set(v)) AS x FROM t GROUP BY g;
INSERT INTO t VALUES ('1', 'g', 3), ('2', 'g', 4);
ASSERT VALUES r (g, x) VALUES ('g', ARRAY[3, 4]);
INSERT INTO t VALUES ('1', NULL, 3);
ASSERT VALUES r (g, x) VALUES ('g', ARRAY[4]);

--@test: of a table: sum(v * 2) - 1
CREATE TABLE t (id STRING PRIMARY KEY, g STRING, v INT) WITH (kafka_topic = 't', partitions = 1);
CREATE TABLE r AS SELECT g, sum(v * 2) - 1 AS x FROM t GROUP BY g;
INSERT INTO t VALUES ('1', 'g', 3), ('2', 'g', 4);
ASSERT VALUES r (g, x) VALUES ('g', 13);
INSERT INTO t VALUES ('1', NULL, 3);
ASSERT VALUES r (g, x) VALUES ('g', 7);
