--@test: a HAVING that no longer holds deletes the row
CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE TABLE rare AS SELECT page, count(*) AS n FROM clicks GROUP BY page HAVING count(*) < 2;
INSERT INTO clicks VALUES ('u1', '/a');
ASSERT VALUES rare (page, n) VALUES ('/a', 1);
INSERT INTO clicks VALUES ('u2', '/a');
ASSERT NULL VALUES rare (page) KEY ('/a');

--@test: a row that a filter no longer keeps is deleted
CREATE TABLE users (id STRING PRIMARY KEY, age INT) WITH (kafka_topic = 'users', partitions = 1);
CREATE TABLE adults AS SELECT id, age FROM users WHERE age >= 18;
INSERT INTO users VALUES ('a', 30), ('b', 10);
ASSERT VALUES adults (id, age) VALUES ('a', 30);
INSERT INTO users VALUES ('a', 3);
ASSERT NULL VALUES adults (id) KEY ('a');
INSERT INTO users VALUES ('b', 18);
ASSERT VALUES adults (id, age) VALUES ('b', 18);

--@test: rows enter and leave the groups of a table
CREATE TABLE users (id STRING PRIMARY KEY, region STRING, score INT) WITH (kafka_topic = 'users', partitions = 1);
CREATE TABLE regions AS SELECT region, count(*) AS n, sum(score) AS total, max(score) AS most FROM users GROUP BY region;
INSERT INTO users VALUES ('a', 'eu', 5);
ASSERT VALUES regions (region, n, total, most) VALUES ('eu', 1, 5, 5);
INSERT INTO users VALUES ('b', 'eu', 7);
ASSERT VALUES regions (region, n, total, most) VALUES ('eu', 2, 12, 7);
INSERT INTO users VALUES ('b', 'eu', 1);
ASSERT VALUES regions (region, n, total, most) VALUES ('eu', 2, 6, 5);
INSERT INTO users VALUES ('b', NULL, 1);
ASSERT VALUES regions (region, n) VALUES ('eu', 1);

--@test: an expression over aggregates of a table
CREATE TABLE users (id STRING PRIMARY KEY, region STRING, score INT) WITH (kafka_topic = 'users', partitions = 1);
CREATE TABLE regions AS
    SELECT region, upper(region) AS name, sum(score) * 10 + count(*) AS s FROM users GROUP BY region HAVING count(*) > 1;
INSERT INTO users VALUES ('a', 'eu', 5);
INSERT INTO users VALUES ('b', 'eu', 7);
ASSERT VALUES regions (region, name, s) VALUES ('eu', 'EU', 122);
INSERT INTO users VALUES ('b', 'us', 7);
ASSERT NULL VALUES regions (region) KEY ('eu');

--@test: OR REPLACE of a query without state goes on where it was
CREATE STREAM a (id STRING KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE STREAM b AS SELECT id, v FROM a;
INSERT INTO a VALUES ('x', 1);
ASSERT VALUES b (id, v) VALUES ('x', 1);
CREATE OR REPLACE STREAM b AS SELECT id, v * 10 AS v FROM a;
INSERT INTO a VALUES ('y', 2);
ASSERT VALUES b (id, v) VALUES ('y', 20);
