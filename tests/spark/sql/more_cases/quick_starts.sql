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
SELECT * FROM riderLocations WHERE GEO_DISTANCE(latitude, longitude, 37.4133, -122.1162) <= 5 EMIT CHANGES;
INSERT INTO riderLocations (profileId, latitude, longitude) VALUES ('c2309eec', 37.7877, -122.4205);
ASSERT VALUES currentLocation (profileId, la, lo) VALUES ('c2309eec', 37.7877, -122.4205);
ASSERT VALUES ridersNearMountainView (distanceInMiles, riders, count) VALUES (50, ARRAY['c2309eec'], 1);
INSERT INTO riderLocations (profileId, latitude, longitude) VALUES ('18f4ea86', 37.3903, -122.0643);
ASSERT VALUES ridersNearMountainView (distanceInMiles, riders, count) VALUES (10, ARRAY['18f4ea86'], 1);
INSERT INTO riderLocations (profileId, latitude, longitude) VALUES ('4ab5cbad', 37.3952, -122.0813);
ASSERT VALUES currentLocation (profileId) VALUES ('18f4ea86');
ASSERT VALUES currentLocation (profileId) VALUES ('4ab5cbad');
ASSERT VALUES ridersNearMountainView (distanceInMiles, count) VALUES (0, 1);
SELECT * FROM ridersNearMountainView WHERE distanceInMiles <= 10;

--@test: cards that are used too often
SET 'sql.dialect' = 'ksql';
CREATE STREAM transactions (tx_id VARCHAR KEY, email_address VARCHAR, card_number VARCHAR, timestamp VARCHAR, amount DECIMAL(12, 2))
    WITH (kafka_topic = 'transactions', partitions = 8, value_format = 'avro', timestamp = 'timestamp',
          timestamp_format = 'yyyy-MM-dd''T''HH:mm:ss');
CREATE TABLE possible_anomalies WITH (kafka_topic = 'possible_anomalies', partitions = 1) AS
    SELECT card_number AS `card_number_key`, as_value(card_number) AS `card_number`,
        latest_by_offset(email_address) AS `email_address`, count(*) AS `n_attempts`, sum(amount) AS `total_amount`,
        collect_list(tx_id) AS `tx_ids`, WINDOWSTART AS `start_boundary`, WINDOWEND AS `end_boundary`
    FROM transactions WINDOW TUMBLING (SIZE 30 SECONDS, RETENTION 1000 DAYS)
    GROUP BY card_number HAVING count(*) >= 3 EMIT CHANGES;
SELECT * FROM possible_anomalies EMIT CHANGES;
INSERT INTO transactions (email_address, card_number, tx_id, timestamp, amount)
    VALUES ('m@x', '358579699410099', 'f88c5ebb', '2020-04-22T03:19:51', 50.25);
INSERT INTO transactions (email_address, card_number, tx_id, timestamp, amount)
    VALUES ('m@x', '358579699410099', '7a4be3f0', '2020-04-22T03:19:53', 103.53);
INSERT INTO transactions (email_address, card_number, tx_id, timestamp, amount)
    VALUES ('f@x', '352642227248344', '87d3a9b1', '2020-04-22T03:19:58', 78.93);
INSERT INTO transactions (email_address, card_number, tx_id, timestamp, amount)
    VALUES ('m@x', '358579699410099', '31fe5cf4', '2020-04-22T03:19:54', 250.00);
ASSERT VALUES possible_anomalies (card_number_key, card_number, email_address, n_attempts, total_amount, start_boundary)
    VALUES ('358579699410099', '358579699410099', 'm@x', 3, 403.78, 1587525570000);

--@test: calls to a call centre
SET 'sql.dialect' = 'ksql';
SET 'auto.offset.reset' = 'earliest';
CREATE STREAM calls (after STRUCT<name VARCHAR, reason VARCHAR, duration_seconds INT>)
    WITH (kafka_topic = 'call-center-db.call-center.calls', value_format = 'avro', partitions = 1);
CREATE TABLE support_view AS
    SELECT after->name AS name, count_distinct(after->reason) AS distinct_reasons, latest_by_offset(after->reason) AS last_reason
    FROM calls GROUP BY after->name EMIT CHANGES;
CREATE TABLE lifetime_view AS
    SELECT after->name AS name, count(after->reason) AS total_calls, (sum(after->duration_seconds) / 60) AS minutes_engaged
    FROM calls GROUP BY after->name EMIT CHANGES;
INSERT INTO calls VALUES (STRUCT(name := 'derek', reason := 'purchase', duration_seconds := 600));
INSERT INTO calls VALUES (STRUCT(name := 'derek', reason := 'help', duration_seconds := 210));
ASSERT VALUES support_view (name, distinct_reasons, last_reason) VALUES ('derek', 1, 'purchase');
ASSERT VALUES support_view (name, distinct_reasons, last_reason) VALUES ('derek', 2, 'help');
ASSERT VALUES lifetime_view (name, total_calls, minutes_engaged) VALUES ('derek', 1, 10);
ASSERT VALUES lifetime_view (name, total_calls, minutes_engaged) VALUES ('derek', 2, 13.5);
SELECT name, distinct_reasons, last_reason FROM support_view WHERE name = 'derek';

--@test: page views by region
SET 'sql.dialect' = 'ksql';
CREATE STREAM pageviews_original (viewtime bigint, userid varchar, pageid varchar)
    WITH (kafka_topic = 'pageviews', value_format = 'DELIMITED', partitions = 1);
CREATE TABLE users_original (registertime BIGINT, gender VARCHAR, regionid VARCHAR, userid VARCHAR PRIMARY KEY)
    WITH (kafka_topic = 'users', value_format = 'JSON', partitions = 1);
CREATE STREAM pageviews_enriched AS
    SELECT users_original.userid AS userid, pageid, regionid, gender
    FROM pageviews_original LEFT JOIN users_original ON pageviews_original.userid = users_original.userid EMIT CHANGES;
CREATE STREAM pageviews_female AS SELECT * FROM pageviews_enriched WHERE gender = 'FEMALE' EMIT CHANGES;
CREATE STREAM pageviews_female_like_89 WITH (kafka_topic = 'pageviews_enriched_r8_r9') AS
    SELECT * FROM pageviews_female WHERE regionid LIKE '%_8' OR regionid LIKE '%_9' EMIT CHANGES;
CREATE TABLE pageviews_regions WITH (VALUE_FORMAT = 'avro') AS
    SELECT gender, regionid, COUNT(*) AS numusers FROM pageviews_enriched WINDOW TUMBLING (size 30 second)
    GROUP BY gender, regionid HAVING COUNT(*) > 1 EMIT CHANGES;
INSERT INTO users_original VALUES (1, 'FEMALE', 'Region_8', 'User_1'), (1, 'FEMALE', 'Region_7', 'User_2');
INSERT INTO pageviews_original (ROWTIME, viewtime, userid, pageid) VALUES (1000, 1, 'User_2', 'Page_1');
INSERT INTO pageviews_original (ROWTIME, viewtime, userid, pageid) VALUES (2000, 2, 'User_1', 'Page_2');
INSERT INTO pageviews_original (ROWTIME, viewtime, userid, pageid) VALUES (3000, 3, 'User_1', 'Page_3');
ASSERT VALUES pageviews_female (userid, pageid, regionid, gender) VALUES ('User_2', 'Page_1', 'Region_7', 'FEMALE');
ASSERT VALUES pageviews_female_like_89 (userid, pageid, regionid, gender) VALUES ('User_1', 'Page_2', 'Region_8', 'FEMALE');
ASSERT VALUES pageviews_regions (gender, regionid, WINDOWSTART, numusers) VALUES ('FEMALE', 'Region_8', 0, 2);

--@test: shipped orders of customers
SET 'sql.dialect' = 'ksql';
SET 'auto.offset.reset' = 'earliest';
CREATE STREAM customers (after STRUCT<id VARCHAR, name VARCHAR, age INT>)
    WITH (kafka_topic = 'customers.public.customers', value_format = 'avro', partitions = 1);
CREATE STREAM orders (order_id VARCHAR, customer_id VARCHAR, price INT, currency VARCHAR, ts VARCHAR)
    WITH (kafka_topic = 'my-replica-set.logistics.orders', value_format = 'avro', timestamp = 'ts',
          timestamp_format = 'yyyy-MM-dd''T''HH:mm:ss', partitions = 1);
CREATE STREAM shipments (shipment_id VARCHAR, order_id VARCHAR, origin VARCHAR, ts VARCHAR)
    WITH (kafka_topic = 'my-replica-set.logistics.shipments', value_format = 'avro', timestamp = 'ts',
          timestamp_format = 'yyyy-MM-dd''T''HH:mm:ss', partitions = 1);
CREATE TABLE customers_by_key AS
    SELECT after->id, latest_by_offset(after->name) AS name, latest_by_offset(after->age) AS age
    FROM customers GROUP BY after->id EMIT CHANGES;
CREATE STREAM enriched_orders AS
    SELECT o.order_id, o.price, o.currency, c.id AS customer_id, c.name AS customer_name, c.age AS customer_age
    FROM orders AS o LEFT JOIN customers_by_key c ON o.customer_id = c.id EMIT CHANGES;
CREATE STREAM shipped_orders WITH (kafka_topic = 'shipped_orders') AS
    SELECT o.order_id, s.shipment_id, o.customer_id, o.customer_name, o.customer_age, s.origin, o.price, o.currency
    FROM enriched_orders o INNER JOIN shipments s WITHIN 7 DAYS ON s.order_id = o.order_id EMIT CHANGES;
INSERT INTO customers VALUES (STRUCT(id := 'c1', name := 'Ada', age := 35));
INSERT INTO customers VALUES (STRUCT(id := 'c1', name := 'Ada', age := 36));
INSERT INTO orders VALUES ('o1', 'c1', 19, 'usd', '2020-05-01T10:00:00');
INSERT INTO shipments VALUES ('s1', 'o1', 'Praha', '2020-05-03T10:00:00');
ASSERT VALUES shipped_orders (order_id, shipment_id, customer_id, customer_name, customer_age, origin, price)
    VALUES ('o1', 's1', 'c1', 'Ada', 36, 'Praha', 19);
