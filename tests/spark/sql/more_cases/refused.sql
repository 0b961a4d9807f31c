--@test: SPOOL is refused
--@expected.error: SPOOL is not served
SPOOL 'x';

--@test: ALTER is refused
--@expected.error: write CREATE OR REPLACE STREAM
ALTER STREAM a ADD COLUMN x INT;

--@test: UPDATE is refused
--@expected.error: UPDATE is not served
UPDATE a SET v = 1;

--@test: DELETE is refused
--@expected.error: DELETE is not served
DELETE FROM a;

--@test: MERGE is refused
--@expected.error: MERGE is not served
MERGE INTO a USING b ON a.id = b.id WHEN MATCHED THEN DELETE;

--@test: TRUNCATE is refused
--@expected.error: TRUNCATE is not served
TRUNCATE TABLE a;

--@test: INSERT OVERWRITE is refused
--@expected.error: write INSERT INTO
INSERT OVERWRITE a SELECT 1;

--@test: a database is refused
--@expected.error: databases are not served
CREATE DATABASE d;

--@test: a temporary table is refused
--@expected.error: write CREATE TEMPORARY VIEW
CREATE TEMPORARY TABLE t (x INT);

--@test: a script of Spark is refused
--@expected.error: scripts with BEGIN and END
BEGIN SELECT 1; END;

--@test: an index is refused
--@expected.error: indexes are not served
CREATE INDEX i ON a (x);

--@test: DROP FLOW is refused
--@expected.error: a flow is a query
DROP FLOW f;

--@test: INSERT INTO with properties is refused
--@expected.error: INSERT INTO has no properties
INSERT INTO a WITH (query_id = 'q') SELECT * FROM b;

--@test: wrap_single_value is refused
--@expected.error: for a bare value use the format KAFKA
CREATE STREAM a (x INT) WITH (kafka_topic = 'a', wrap_single_value = false);

--@test: timestamp_format without timestamp is refused
--@expected.error: is of the column in `timestamp`
CREATE STREAM a (x INT) WITH (kafka_topic = 'a', timestamp_format = 'yyyy');

--@test: format beside value_format is refused
--@expected.error: leave out `value_format`
CREATE STREAM a (x INT) WITH (kafka_topic = 'a', format = 'JSON', value_format = 'JSON');

--@test: DEFAULT of a column is refused
--@expected.error: DEFAULT
CREATE STREAM a (x INT DEFAULT 1) WITH (kafka_topic = 'a', partitions = 1);

--@test: a variable that is gone
--@expected.error: the variable `a` is not defined
DEFINE a = 'x';
UNDEFINE a;
CREATE STREAM ${a} (x INT) WITH (kafka_topic = 'a');

--@test: the name of an Avro record is refused
--@expected.error: is named Key or Value
CREATE STREAM a (x INT) WITH (kafka_topic = 'a', value_format = 'avro', value_avro_schema_full_name = 'io.x.Y');
