--@test: a tumbling window, each change
CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE TABLE counts AS SELECT user, count(*) AS n FROM clicks WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY user;
INSERT INTO clicks (ROWTIME, user, page) VALUES (1000, 'u', '/a');
ASSERT VALUES counts (user, WINDOWSTART, WINDOWEND, n) VALUES ('u', 0, 10000, 1);
INSERT INTO clicks (ROWTIME, user, page) VALUES (2000, 'u', '/b');
ASSERT VALUES counts (user, WINDOWSTART, WINDOWEND, n) VALUES ('u', 0, 10000, 2);
INSERT INTO clicks (ROWTIME, user, page) VALUES (12000, 'u', '/b');
ASSERT VALUES counts (user, WINDOWSTART, WINDOWEND, n) VALUES ('u', 10000, 20000, 1);

--@test: EMIT FINAL gives a window once, and late rows are left out
CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE TABLE counts AS
    SELECT user, count(*) AS n FROM clicks WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 5 SECONDS) GROUP BY user EMIT FINAL;
INSERT INTO clicks (ROWTIME, user, page) VALUES (1000, 'u', '/a');
INSERT INTO clicks (ROWTIME, user, page) VALUES (12000, 'u', '/b');
INSERT INTO clicks (ROWTIME, user, page) VALUES (2000, 'u', '/late but within the grace period');
INSERT INTO clicks (ROWTIME, user, page) VALUES (20000, 'v', '/c');
ASSERT VALUES counts (user, WINDOWSTART, n) VALUES ('u', 0, 2);
INSERT INTO clicks (ROWTIME, user, page) VALUES (3000, 'u', '/too late');
INSERT INTO clicks (ROWTIME, user, page) VALUES (26000, 'v', '/d');
ASSERT VALUES counts (user, WINDOWSTART, n) VALUES ('u', 10000, 1);

--@test: a session
CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic = 'clicks', partitions = 1);
CREATE TABLE visits AS
    SELECT user, count(*) AS n FROM clicks WINDOW SESSION (5 SECONDS, GRACE PERIOD 0 SECONDS) GROUP BY user EMIT FINAL;
INSERT INTO clicks (ROWTIME, user, page) VALUES (1000, 'u', '/a'), (4000, 'u', '/b');
INSERT INTO clicks (ROWTIME, user, page) VALUES (30000, 'w', '/c');
ASSERT VALUES visits (user, WINDOWSTART, WINDOWEND, n) VALUES ('u', 1000, 9000, 2);
