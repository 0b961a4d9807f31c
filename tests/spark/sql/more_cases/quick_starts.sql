-- The flows of ksqlDB's public quick start and tutorials, written anew, in its dialect.

--@test: riders near a place
SET 'sql.dialect' = 'ksql';
SET 'auto.offset.reset' = 'earliest';
CREATE STREAM riderLocations (profileId VARCHAR, latitude DOUBLE, longitude DOUBLE)
    WITH (kafka_topic = 'locations', value_format = 'json', partitions = 1);
CREATE TABLE currentLocation AS
    SELECT profileId, LATEST_BY_OFFSET(latitude) AS la, LATEST_BY_OFFSET(longitude) AS lo
    FROM riderLocations GROUP BY profileId EMIT CHANGES;
CREATE TABLE ridersNearMountainView AS
    SELECT ROUND(GEO_DISTANCE(la, lo, 37.4133, -122.1162), -1) AS distanceInMiles,
        COLLECT_LIST(profileId) AS riders, COUNT(*) AS count
    FROM currentLocation GROUP BY ROUND(GEO_DISTANCE(la, lo, 37.4133, -122.1162), -1);
INSERT INTO riderLocations (profileId, latitude, longitude) VALUES ('c2309eec', 37.7877, -122.4205);
ASSERT VALUES currentLocation (profileId, la, lo) VALUES ('c2309eec', 37.7877, -122.4205);
ASSERT VALUES ridersNearMountainView (distanceInMiles, riders, count) VALUES (50, ARRAY['c2309eec'], 1);
INSERT INTO riderLocations (profileId, latitude, longitude) VALUES ('18f4ea86', 37.3903, -122.0643);
ASSERT VALUES ridersNearMountainView (distanceInMiles, riders, count) VALUES (10, ARRAY['18f4ea86'], 1);
INSERT INTO riderLocations (profileId, latitude, longitude) VALUES ('4ab5cbad', 37.3952, -122.0813);
ASSERT VALUES currentLocation (profileId) VALUES ('18f4ea86');
ASSERT VALUES currentLocation (profileId) VALUES ('4ab5cbad');
ASSERT VALUES ridersNearMountainView (distanceInMiles, count) VALUES (0, 1);

--@test: cards that are used too often
SET 'sql.dialect' = 'ksql';
CREATE STREAM transactions (tx_id VARCHAR KEY, email VARCHAR, card VARCHAR, at VARCHAR, amount DECIMAL(5, 2))
    WITH (kafka_topic = 'transactions', partitions = 1, value_format = 'json', timestamp = 'at',
          timestamp_format = 'yyyy-MM-dd''T''HH:mm:ss');
CREATE TABLE possible_anomalies WITH (kafka_topic = 'possible_anomalies') AS
    SELECT card AS card_key, AS_VALUE(card) AS card_number, LATEST_BY_OFFSET(email) AS email, COUNT(*) AS n_attempts,
        SUM(amount) AS total_amount, COLLECT_LIST(tx_id) AS tx_ids, WINDOWSTART AS start_boundary, WINDOWEND AS end_boundary
    FROM transactions WINDOW TUMBLING (SIZE 30 SECONDS, RETENTION 1000 DAYS)
    GROUP BY card HAVING COUNT(*) >= 3 EMIT CHANGES;
INSERT INTO transactions VALUES ('f88c5ebb', 'm@x', '358579699410099', '2020-04-22T03:19:51', 50.25);
INSERT INTO transactions VALUES ('7a4be3f0', 'm@x', '358579699410099', '2020-04-22T03:19:53', 103.53);
INSERT INTO transactions VALUES ('87d3a9b1', 'm@x', '352642227248344', '2020-04-22T03:19:58', 78.93);
INSERT INTO transactions VALUES ('31fe5cf4', 'm@x', '358579699410099', '2020-04-22T03:19:54', 250.00);
ASSERT VALUES possible_anomalies (card_key, card_number, email, n_attempts, total_amount)
    VALUES ('358579699410099', '358579699410099', 'm@x', 3, 403.78);

--@test: calls to a call centre
SET 'sql.dialect' = 'ksql';
CREATE STREAM calls (name VARCHAR, reason VARCHAR, duration_seconds INT)
    WITH (kafka_topic = 'calls', value_format = 'json', partitions = 1);
CREATE TABLE support_view AS
    SELECT name, COUNT_DISTINCT(reason) AS distinct_reasons, LATEST_BY_OFFSET(reason) AS last_reason
    FROM calls GROUP BY name EMIT CHANGES;
CREATE TABLE lifetime_view AS
    SELECT name, COUNT(reason) AS total_calls, (SUM(duration_seconds) / 60) AS minutes_engaged
    FROM calls GROUP BY name EMIT CHANGES;
INSERT INTO calls VALUES ('derek', 'purchase', 600);
INSERT INTO calls VALUES ('derek', 'help', 200);
ASSERT VALUES support_view (name, distinct_reasons, last_reason) VALUES ('derek', 1, 'purchase');
ASSERT VALUES support_view (name, distinct_reasons, last_reason) VALUES ('derek', 2, 'help');
ASSERT VALUES lifetime_view (name, total_calls) VALUES ('derek', 1);
ASSERT VALUES lifetime_view (name, total_calls) VALUES ('derek', 2);

--@test: shipped orders of customers
SET 'sql.dialect' = 'ksql';
CREATE TABLE customers (id VARCHAR PRIMARY KEY, name VARCHAR, age INT) WITH (kafka_topic = 'customers', partitions = 1);
CREATE STREAM orders (order_id VARCHAR KEY, customer_id VARCHAR, price INT) WITH (kafka_topic = 'orders', partitions = 1);
CREATE STREAM shipments (shipment_id VARCHAR KEY, order_id VARCHAR, origin VARCHAR) WITH (kafka_topic = 'shipments', partitions = 1);
CREATE STREAM enriched_orders AS
    SELECT o.order_id, o.price, c.id AS customer_id, c.name AS customer_name FROM orders o
    LEFT JOIN customers c ON o.customer_id = c.id EMIT CHANGES;
CREATE STREAM shipped_orders WITH (kafka_topic = 'shipped_orders') AS
    SELECT o.order_id AS order_id, s.shipment_id, o.customer_name, s.origin, o.price
    FROM enriched_orders o INNER JOIN shipments s WITHIN 7 DAYS ON s.order_id = o.order_id EMIT CHANGES;
INSERT INTO customers VALUES ('c1', 'Ada', 36);
INSERT INTO orders (ROWTIME, order_id, customer_id, price) VALUES (1000, 'o1', 'c1', 19);
INSERT INTO shipments (ROWTIME, shipment_id, order_id, origin) VALUES (90000, 's1', 'o1', 'Praha');
ASSERT VALUES shipped_orders (order_id, shipment_id, customer_name, origin, price) VALUES ('o1', 's1', 'Ada', 'Praha', 19);
