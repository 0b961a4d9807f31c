-- Orders as the shops send them. A line that is no JSON goes to the dead letters.
CREATE STREAM raw_orders (id STRING, customer STRING, amount STRING, at TIMESTAMP)
    WITH (kafka_topic = 'raw-orders', timestamp = 'at', partitions = 1);
CREATE TABLE customers (id STRING PRIMARY KEY, country STRING)
    WITH (kafka_topic = 'customers', partitions = 1);

-- Clean: one notation of customers and amounts. An amount that is no number becomes null.
CREATE STREAM clean WITH (kafka_topic = 'clean-orders', partitions = 1, timestamp = 'at') AS
    SELECT id, lower(trim(customer)) AS customer, amount AS written,
           try_cast(replace(amount, ',', '.') AS DECIMAL(10, 2)) AS amount, at
    FROM raw_orders;
CREATE STREAM rejected WITH (kafka_topic = 'rejected-orders', partitions = 1) AS
    SELECT id, customer, written, at FROM clean WHERE coalesce(amount, 0) <= 0;

-- Enrich by the table of customers, and re-key: the orders of a customer are in one partition, in their order.
CREATE STREAM orders WITH (kafka_topic = 'orders', partitions = 3, timestamp = 'at') AS
    SELECT o.customer AS customer, o.id AS id, o.amount AS amount, coalesce(c.country, '?') AS country, o.at AS at
    FROM clean o LEFT JOIN customers c ON o.customer = c.id
    WHERE o.amount > 0
    PARTITION BY o.customer;

-- Each order once: its window takes copies for ten minutes, and is then written.
CREATE TABLE orders_once WITH (kafka_topic = 'orders-once', partitions = 3) AS
    SELECT id, AS_VALUE(id) AS order_id, first(customer) AS customer, first(amount) AS amount,
           first(country) AS country, min(at) AS at, count(*) AS copies
    FROM orders
    WINDOW SESSION (10 MINUTES, GRACE PERIOD 1 MINUTE)
    GROUP BY id
    EMIT FINAL;
