-- Readings of cold rooms, by the time that each reading says.
CREATE STREAM readings (device STRING, degrees DOUBLE, at TIMESTAMP)
    WITH (kafka_topic = 'readings', timestamp = 'at', partitions = 1);

-- Mean and deviation of the ten minutes before each full minute. EMIT FINAL writes a window once, when it is over.
CREATE TABLE trailing WITH (partitions = 1) AS
    SELECT device, avg(degrees) AS mean, stddev(degrees) AS deviation
    FROM readings
    WINDOW HOPPING (SIZE 10 MINUTES, ADVANCE BY 1 MINUTE, GRACE PERIOD 0 SECONDS)
    GROUP BY device HAVING count(*) >= 30
    EMIT FINAL;

-- The same topic as a stream, whose time is the end of the window: two streams join by time.
CREATE STREAM trailing_windows (device STRING KEY, WINDOWEND BIGINT KEY, mean DOUBLE, deviation DOUBLE)
    WITH (kafka_topic = 'trailing', key_format = 'JSON', timestamp = 'WINDOWEND');

-- Each reading meets the one window that ended when the reading's minute began, so it is never compared with itself.
CREATE STREAM spikes WITH (partitions = 1) AS
    SELECT r.device, r.at, r.degrees, round((r.degrees - w.mean) / w.deviation, 1) AS z
    FROM readings r JOIN trailing_windows w
        WITHIN 1 MINUTE GRACE PERIOD 0 SECONDS
        ON r.device = w.device AND date_trunc('MINUTE', r.at) = timestamp_millis(w.WINDOWEND)
    WHERE abs(r.degrees - w.mean) > 6 * w.deviation;

-- A session ends two minutes after its last reading: then the device is silent.
CREATE TABLE silences WITH (partitions = 1) AS
    SELECT device, AS_VALUE(device) AS silent, max(at) AS last_seen, count(*) AS readings
    FROM readings
    WINDOW SESSION (2 MINUTES, GRACE PERIOD 0 SECONDS)
    GROUP BY device
    EMIT FINAL;
