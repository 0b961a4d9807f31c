--@test: a hopping window
CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE TABLE counts AS
    SELECT user, WINDOWSTART AS ws, count(*) AS n FROM clicks WINDOW HOPPING (SIZE 10 SECONDS, ADVANCE BY 5 SECONDS, GRACE PERIOD 0 SECONDS)
    GROUP BY user EMIT FINAL;
INSERT INTO clicks (ROWTIME, user, page) VALUES (7000, 'u', '/a');
INSERT INTO clicks (ROWTIME, user, page) VALUES (12000, 'u', '/b');
ASSERT VALUES counts (user, ws, n) VALUES ('u', 0, 1);
INSERT INTO clicks (ROWTIME, user, page) VALUES (17000, 'w', '/b');
ASSERT VALUES counts (user, ws, n) VALUES ('u', 5000, 2);

--@test: HAVING of a window that no longer holds
CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE TABLE rare AS SELECT user, count(*) AS n FROM clicks WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY user HAVING count(*) < 2;
INSERT INTO clicks (ROWTIME, user, page) VALUES (1000, 'u', '/a');
ASSERT VALUES rare (user, WINDOWSTART, WINDOWEND, n) VALUES ('u', 0, 10000, 1);
INSERT INTO clicks (ROWTIME, user, page) VALUES (2000, 'u', '/b');
ASSERT NULL VALUES rare (user, WINDOWSTART, WINDOWEND) KEY ('u', 0, 10000);

--@test: Spark's own window, without a clause
CREATE STREAM clicks (user STRING KEY, at TIMESTAMP) WITH (kafka_topic = 'clicks', partitions = 1, timestamp = 'at');
CREATE TABLE counts AS SELECT user, window(at, '10 seconds') AS w, count(*) AS n FROM clicks GROUP BY user, window(at, '10 seconds');
INSERT INTO clicks VALUES ('u', TIMESTAMP '1970-01-01 00:00:01');
ASSERT VALUES counts (user, n) VALUES ('u', 1);
