--@test: an aggregate of a stream gives each change of a group
CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE TABLE counts AS SELECT user, count(*) AS n FROM clicks GROUP BY user;
INSERT INTO clicks VALUES ('u1', '/a');
ASSERT VALUES counts (user, n) VALUES ('u1', 1);
INSERT INTO clicks VALUES ('u1', '/b');
ASSERT VALUES counts (user, n) VALUES ('u1', 2);

--@test: a table over an aggregate of a stream
CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE TABLE counts AS SELECT user, count(*) AS n FROM clicks GROUP BY user;
CREATE TABLE low AS SELECT user, n FROM counts WHERE n < 2;
INSERT INTO clicks VALUES ('u', '/a');
ASSERT VALUES low (user, n) VALUES ('u', 1);
INSERT INTO clicks VALUES ('u', '/b');
ASSERT NULL VALUES low (user) KEY ('u');
