-- Requests to services, by the time that each request says.
CREATE STREAM requests (service STRING, status INT, ms DOUBLE, at TIMESTAMP)
    WITH (kafka_topic = 'requests', timestamp = 'at', partitions = 1);

-- Rate, errors and percentiles of each service and minute. A request may be ten seconds late.
CREATE TABLE minutes WITH (partitions = 1) AS
    SELECT service, AS_VALUE(service) AS name, timestamp_millis(WINDOWSTART) AS minute,
           round(count(*) / 60, 2) AS per_second,
           round(count_if(status >= 500) / count(*), 3) AS errors,
           approx_percentile(ms, 0.5) AS p50_ms, approx_percentile(ms, 0.95) AS p95_ms
    FROM requests
    WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 10 SECONDS)
    GROUP BY service
    EMIT FINAL;

-- The minutes that somebody should look at, each once.
CREATE TABLE alerts WITH (kafka_topic = 'service-alerts', partitions = 1) AS
    SELECT service, AS_VALUE(service) AS name, timestamp_millis(WINDOWSTART) AS minute,
           CASE WHEN approx_percentile(ms, 0.95) > 500 THEN 'slow' ELSE 'failing' END AS problem,
           approx_percentile(ms, 0.95) AS p95_ms,
           round(count_if(status >= 500) / count(*), 3) AS errors
    FROM requests
    WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 10 SECONDS)
    GROUP BY service
    HAVING approx_percentile(ms, 0.95) > 500 OR (count(*) >= 20 AND count_if(status >= 500) > 0.08 * count(*))
    EMIT FINAL;
