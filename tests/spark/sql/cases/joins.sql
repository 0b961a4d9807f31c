--@test: a stream looks up a table as it is then
CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE TABLE users (id STRING PRIMARY KEY, name STRING) WITH (kafka_topic = 'users', partitions = 1);
CREATE STREAM named AS SELECT c.user, u.name AS name, page FROM clicks c LEFT JOIN users u ON c.user = u.id;
INSERT INTO clicks VALUES ('u', '/before');
ASSERT VALUES named (user, name, page) VALUES ('u', NULL, '/before');
INSERT INTO users VALUES ('u', 'Ada');
INSERT INTO clicks VALUES ('u', '/a');
ASSERT VALUES named (user, name, page) VALUES ('u', 'Ada', '/a');
INSERT INTO users VALUES ('u', 'Bob');
INSERT INTO clicks VALUES ('u', '/b');
ASSERT VALUES named (user, name, page) VALUES ('u', 'Bob', '/b');

--@test: two streams within a time
CREATE STREAM orders (id STRING KEY, amount INT) WITH (kafka_topic = 'orders', partitions = 1);
CREATE STREAM payments (id STRING KEY, paid INT) WITH (kafka_topic = 'payments', partitions = 1);
CREATE STREAM settled AS
    SELECT o.id AS id, o.amount, p.paid FROM orders o JOIN payments p WITHIN 10 SECONDS ON o.id = p.id;
INSERT INTO orders (ROWTIME, id, amount) VALUES (1000, 'a', 5);
INSERT INTO payments (ROWTIME, id, paid) VALUES (50000, 'a', 4);
INSERT INTO payments (ROWTIME, id, paid) VALUES (3000, 'a', 5);
ASSERT VALUES settled (ROWTIME, id, amount, paid) VALUES (3000, 'a', 5, 5);

--@test: a full join of two tables
CREATE TABLE a (id STRING PRIMARY KEY, v INT) WITH (kafka_topic = 'a', partitions = 1);
CREATE TABLE b (id STRING PRIMARY KEY, w INT) WITH (kafka_topic = 'b', partitions = 1);
CREATE TABLE c AS SELECT COALESCE(a.id, b.id) AS id, v, w FROM a FULL OUTER JOIN b ON a.id = b.id;
INSERT INTO b VALUES ('x', 2);
ASSERT VALUES c (id, v, w) VALUES ('x', NULL, 2);
INSERT INTO a VALUES ('x', 1);
ASSERT VALUES c (id, v, w) VALUES ('x', 1, 2);

--@test: two tables by a foreign key, which moves
CREATE TABLE orders (id BIGINT PRIMARY KEY, user STRING, amount INT) WITH (kafka_topic = 'orders', partitions = 1);
CREATE TABLE users (id STRING PRIMARY KEY, name STRING) WITH (kafka_topic = 'users', partitions = 1);
CREATE TABLE named AS SELECT o.id AS id, u.name AS name, amount FROM orders o JOIN users u ON o.user = u.id;
INSERT INTO users VALUES ('u', 'Ada'), ('v', 'Bob');
INSERT INTO orders VALUES (1, 'u', 5);
ASSERT VALUES named (id, name, amount) VALUES (1, 'Ada', 5);
INSERT INTO users VALUES ('u', 'Eve');
ASSERT VALUES named (id, name, amount) VALUES (1, 'Eve', 5);
INSERT INTO orders VALUES (1, 'v', 5);
ASSERT VALUES named (id, name, amount) VALUES (1, 'Bob', 5);
INSERT INTO orders VALUES (1, 'nobody', 5);
ASSERT NULL VALUES named (id) KEY (1);

--@test: a join of a stream and a table, counted in windows
CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE TABLE users (id STRING PRIMARY KEY, region STRING) WITH (kafka_topic = 'users', partitions = 1);
CREATE TABLE regions AS
    SELECT u.region AS region, count(*) AS n FROM clicks c JOIN users u ON c.user = u.id
    WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY u.region;
INSERT INTO users VALUES ('u', 'eu'), ('v', 'eu');
INSERT INTO clicks (ROWTIME, user, page) VALUES (1000, 'u', '/a');
ASSERT VALUES regions (region, WINDOWSTART, n) VALUES ('eu', 0, 1);
INSERT INTO clicks (ROWTIME, user, page) VALUES (2000, 'v', '/a');
ASSERT VALUES regions (region, WINDOWSTART, n) VALUES ('eu', 0, 2);
