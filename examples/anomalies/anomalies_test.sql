--@test: a device that speaks again was silent, and the others were not
CREATE STREAM readings (device STRING, at TIMESTAMP)
    WITH (kafka_topic = 'readings', timestamp = 'at', partitions = 1);
CREATE TABLE silences WITH (partitions = 1) AS
    SELECT device, AS_VALUE(device) AS silent, max(at) AS last_seen, count(*) AS readings
    FROM readings
    WINDOW SESSION (2 MINUTES, GRACE PERIOD 0 SECONDS)
    GROUP BY device
    EMIT FINAL;
INSERT INTO readings VALUES
    ('a', TIMESTAMP '2026-01-05 06:00:00'), ('b', TIMESTAMP '2026-01-05 06:00:00'),
    ('a', TIMESTAMP '2026-01-05 06:01:00'), ('b', TIMESTAMP '2026-01-05 06:01:00'),
    ('b', TIMESTAMP '2026-01-05 06:02:30'), ('b', TIMESTAMP '2026-01-05 06:04:00');
ASSERT VALUES silences (silent, last_seen, readings) VALUES ('a', TIMESTAMP '2026-01-05 06:01:00', 2);

--@test: a reading is compared with the window before its minute
CREATE STREAM readings (device STRING, degrees DOUBLE, at TIMESTAMP)
    WITH (kafka_topic = 'readings', timestamp = 'at', partitions = 1);
CREATE STREAM trailing_windows (device STRING KEY, WINDOWEND BIGINT KEY, mean DOUBLE, deviation DOUBLE)
    WITH (kafka_topic = 'trailing', key_format = 'JSON', timestamp = 'WINDOWEND', partitions = 1);
CREATE STREAM spikes WITH (partitions = 1) AS
    SELECT r.device, r.at, r.degrees, round((r.degrees - w.mean) / w.deviation, 1) AS z
    FROM readings r JOIN trailing_windows w
        WITHIN 1 MINUTE GRACE PERIOD 0 SECONDS
        ON r.device = w.device AND date_trunc('MINUTE', r.at) = timestamp_millis(w.WINDOWEND)
    WHERE abs(r.degrees - w.mean) > 6 * w.deviation;
INSERT INTO trailing_windows VALUES
    ('a', 60000, 4.0, 0.5), ('a', 120000, 9.0, 0.5);
INSERT INTO readings VALUES
    ('a', 6.0, TIMESTAMP '1970-01-01 00:01:00'), ('a', 9.0, TIMESTAMP '1970-01-01 00:01:50'),
    ('a', 9.0, TIMESTAMP '1970-01-01 00:02:00'), ('b', 9.0, TIMESTAMP '1970-01-01 00:02:00');
ASSERT VALUES spikes (at, degrees, z) VALUES (TIMESTAMP '1970-01-01 00:01:50', 9.0, 10.0);
