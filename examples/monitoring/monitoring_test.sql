--@test: a minute with slow requests raises an alert, once
CREATE STREAM requests (service STRING, status INT, ms DOUBLE, at TIMESTAMP)
    WITH (kafka_topic = 'requests', timestamp = 'at', partitions = 1);
CREATE TABLE alerts WITH (kafka_topic = 'service-alerts', partitions = 1) AS
    SELECT service, AS_VALUE(service) AS name, timestamp_millis(WINDOWSTART) AS minute,
           approx_percentile(ms, 0.95) AS p95_ms
    FROM requests
    WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 10 SECONDS)
    GROUP BY service
    HAVING approx_percentile(ms, 0.95) > 500
    EMIT FINAL;
INSERT INTO requests VALUES
    ('cart', 200, 40, TIMESTAMP '2026-01-05 09:00:10'), ('checkout', 200, 700, TIMESTAMP '2026-01-05 09:00:20'),
    ('cart', 200, 40, TIMESTAMP '2026-01-05 09:01:05'), ('checkout', 200, 900, TIMESTAMP '2026-01-05 09:00:59');
INSERT INTO requests VALUES ('cart', 200, 40, TIMESTAMP '2026-01-05 09:01:20');
ASSERT VALUES alerts (name, minute, p95_ms) VALUES ('checkout', TIMESTAMP '2026-01-05 09:00:00', 900);
