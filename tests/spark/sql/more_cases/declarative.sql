--@test: a streaming table with flows
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAMING TABLE both (id STRING, v INT) TBLPROPERTIES (kafka_topic = 'both', partitions = 1);
CREATE FLOW positive AS INSERT INTO both BY NAME SELECT id, v FROM STREAM(a) WHERE v > 0;
INSERT INTO a VALUES ('x', 1), ('y', -1);
ASSERT VALUES both (id, v) VALUES ('x', 1);

--@test: a streaming table of a query
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAMING TABLE b AS SELECT id, v * 2 AS w FROM STREAM a;
INSERT INTO a VALUES ('x', 1);
ASSERT VALUES b (id, w) VALUES ('x', 2);

--@test: a materialized view
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE MATERIALIZED VIEW sums AS SELECT id, sum(v) AS total FROM a GROUP BY id;
INSERT INTO a VALUES ('x', 1);
INSERT INTO a VALUES ('x', 4);
ASSERT VALUES sums (id, total) VALUES ('x', 1);
ASSERT VALUES sums (id, total) VALUES ('x', 5);
DROP MATERIALIZED VIEW sums;

--@test: INSERT with names of columns
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM b (id STRING KEY, w INT) WITH (kafka_topic = 'b', partitions = 1);
INSERT INTO b (id, w) SELECT upper(id), v + 1 FROM a;
INSERT INTO a VALUES ('x', 1);
ASSERT VALUES b (id, w) VALUES ('X', 2);
