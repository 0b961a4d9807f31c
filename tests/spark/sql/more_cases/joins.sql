--@test: an inner join leaves rows out
CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE TABLE users (id STRING PRIMARY KEY, name STRING) WITH (kafka_topic = 'users', partitions = 1);
CREATE STREAM named AS SELECT c.user, u.name AS name FROM clicks c JOIN users u ON u.id = c.user;
INSERT INTO clicks VALUES ('nobody', '/a');
INSERT INTO users VALUES ('u', 'Ada');
INSERT INTO clicks VALUES ('u', '/a');
ASSERT VALUES named (user, name) VALUES ('u', 'Ada');

--@test: two tables on their keys
CREATE TABLE a (id STRING PRIMARY KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE b (id STRING PRIMARY KEY, w INT) WITH (kafka_topic = 'b', partitions = 1);
CREATE TABLE c AS SELECT a.id, v, w FROM a LEFT JOIN b ON a.id = b.id;
INSERT INTO a VALUES ('x', 1);
ASSERT VALUES c (id, v, w) VALUES ('x', 1, NULL);
INSERT INTO b VALUES ('x', 2);
ASSERT VALUES c (id, v, w) VALUES ('x', 1, 2);
INSERT INTO a VALUES ('x', 5);
ASSERT VALUES c (id, v, w) VALUES ('x', 5, 2);

--@test: three relations, and a group of the join
CREATE TABLE orders (id BIGINT PRIMARY KEY, user STRING, item STRING, amount INT) WITH (kafka_topic = 'orders', partitions = 1);
CREATE TABLE users (id STRING PRIMARY KEY, region STRING) WITH (kafka_topic = 'users', partitions = 1);
CREATE TABLE items (id STRING PRIMARY KEY, price INT) WITH (kafka_topic = 'items', partitions = 1);
CREATE TABLE revenue AS
    SELECT u.region AS region, sum(o.amount * i.price) AS total
    FROM orders o JOIN users u ON o.user = u.id JOIN items i ON o.item = i.id GROUP BY u.region;
INSERT INTO users VALUES ('u', 'eu');
INSERT INTO items VALUES ('pen', 3);
INSERT INTO orders VALUES (1, 'u', 'pen', 5);
ASSERT VALUES revenue (region, total) VALUES ('eu', 15);
INSERT INTO items VALUES ('pen', 4);
ASSERT VALUES revenue (region, total) VALUES ('eu', 20);
INSERT INTO users VALUES ('u', NULL);
ASSERT NULL VALUES revenue (region) KEY ('eu');

--@test: a view of a stream looks up a table
CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE TABLE users (id STRING PRIMARY KEY, name STRING) WITH (kafka_topic = 'users', partitions = 1);
CREATE VIEW pages AS SELECT user, page FROM clicks WHERE page <> '/x';
CREATE STREAM named AS SELECT p.user, u.name AS name, page FROM pages p LEFT JOIN users u ON p.user = u.id;
INSERT INTO users VALUES ('u', 'Ada');
INSERT INTO clicks VALUES ('u', '/x'), ('u', '/a');
ASSERT VALUES named (user, name, page) VALUES ('u', 'Ada', '/a');
