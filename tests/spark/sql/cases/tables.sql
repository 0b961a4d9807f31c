--@test: an aggregate of a stream gives each change of a group
CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE TABLE counts AS SELECT user, count(*) AS n FROM clicks GROUP BY user;
INSERT INTO clicks VALUES ('u1', '/a');
ASSERT VALUES counts (user, n) VALUES ('u1', 1);
INSERT INTO clicks VALUES ('u1', '/b');
ASSERT VALUES counts (user, n) VALUES ('u1', 2);

--@test: a HAVING that no longer holds deletes the row
CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE TABLE rare AS SELECT page, count(*) AS n FROM clicks GROUP BY page HAVING count(*) < 2;
INSERT INTO clicks VALUES ('u1', '/a');
ASSERT VALUES rare (page, n) VALUES ('/a', 1);
INSERT INTO clicks VALUES ('u2', '/a');
ASSERT NULL VALUES rare (page) KEY ('/a');
