--@test: Avro with a schema in the registry
ASSERT NOT EXISTS SCHEMA SUBJECT 'avro-a-value';
CREATE STREAM a (id STRING KEY, v INT, p STRUCT<x DOUBLE>) WITH (kafka_topic = 'avro-a', partitions = 1, format = 'AVRO');
CREATE STREAM r WITH (kafka_topic = 'avro-r') AS SELECT id, v + 1 AS w, p FROM a;
INSERT INTO a VALUES ('k', 1, STRUCT(x := 0.5));
ASSERT VALUES r (id, w, p) VALUES ('k', 2, STRUCT(x := 0.5));
ASSERT SCHEMA SUBJECT 'avro-a-key' TIMEOUT 10 SECONDS;
ASSERT SCHEMA SUBJECT 'avro-r-value';
ASSERT NOT EXISTS SCHEMA ID 999999;
DROP STREAM r;
DROP STREAM a;
CREATE STREAM again WITH (kafka_topic = 'avro-a', format = 'AVRO');
ASSERT STREAM again (ROWKEY STRING KEY, v INT, p STRUCT<x DOUBLE>);
DROP STREAM again DELETE TOPIC;
CREATE STREAM gone (id STRING KEY) WITH (kafka_topic = 'avro-r');
DROP STREAM gone DELETE TOPIC;

--@test: Protobuf with a schema in the registry
CREATE TABLE a (id STRING PRIMARY KEY, v INT, l ARRAY<STRING>) WITH (kafka_topic = 'proto-a', partitions = 1, value_format = 'PROTOBUF');
CREATE TABLE r WITH (kafka_topic = 'proto-r') AS SELECT id, v + 1 AS w, l FROM a;
INSERT INTO a VALUES ('k', 1, ARRAY['x']);
ASSERT VALUES r (id, w, l) VALUES ('k', 2, ARRAY['x']);

--@test: JSON with a schema in the registry
CREATE TABLE a (id STRING PRIMARY KEY, v INT, b BOOLEAN) WITH (kafka_topic = 'jsr-a', partitions = 1, value_format = 'JSON_SR');
CREATE TABLE r WITH (kafka_topic = 'jsr-r') AS SELECT id, v + 1 AS w, b FROM a;
INSERT INTO a VALUES ('k', 1, true);
ASSERT VALUES r (id, w, b) VALUES ('k', 2, true);
