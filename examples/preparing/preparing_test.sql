--@test: an order is cleaned, gets its country, and has the customer as its key
CREATE STREAM raw_orders (id STRING, customer STRING, amount STRING, at TIMESTAMP)
    WITH (kafka_topic = 'raw-orders', timestamp = 'at', partitions = 1);
CREATE TABLE customers (id STRING PRIMARY KEY, country STRING)
    WITH (kafka_topic = 'customers', partitions = 1);
CREATE STREAM clean WITH (kafka_topic = 'clean-orders', partitions = 1, timestamp = 'at') AS
    SELECT id, lower(trim(customer)) AS customer, amount AS written,
           try_cast(replace(amount, ',', '.') AS DECIMAL(10, 2)) AS amount, at
    FROM raw_orders;
CREATE STREAM orders WITH (kafka_topic = 'orders', partitions = 1, timestamp = 'at') AS
    SELECT o.customer AS customer, o.id AS id, o.amount AS amount, coalesce(c.country, '?') AS country, o.at AS at
    FROM clean o LEFT JOIN customers c ON o.customer = c.id
    WHERE o.amount > 0
    PARTITION BY o.customer;
INSERT INTO customers VALUES ('c001', 'CZ');
INSERT INTO raw_orders VALUES
    ('o-1', ' C001 ', '12,50', TIMESTAMP '2026-01-05 08:00:00'),
    ('o-2', 'c001', 'n/a', TIMESTAMP '2026-01-05 08:00:01');
INSERT INTO raw_orders VALUES ('o-3', 'C777', '3.00', TIMESTAMP '2026-01-05 08:00:02');
ASSERT VALUES orders (customer, id, amount, country) VALUES ('c001', 'o-1', 12.50, 'CZ');
ASSERT VALUES orders (customer, id, amount, country) VALUES ('c777', 'o-3', 3.00, '?');

--@test: an order that comes twice is kept once
CREATE STREAM orders (customer STRING KEY, id STRING, amount DECIMAL(10, 2), at TIMESTAMP)
    WITH (kafka_topic = 'orders', timestamp = 'at', partitions = 1);
CREATE TABLE orders_once WITH (kafka_topic = 'orders-once', partitions = 1) AS
    SELECT id, AS_VALUE(id) AS order_id, first(customer) AS customer, first(amount) AS amount, count(*) AS copies
    FROM orders
    WINDOW SESSION (10 MINUTES, GRACE PERIOD 0 SECONDS)
    GROUP BY id
    EMIT FINAL;
INSERT INTO orders VALUES
    ('c001', 'o-1', 12.50, TIMESTAMP '2026-01-05 08:00:00'),
    ('c001', 'o-1', 12.50, TIMESTAMP '2026-01-05 08:02:00'),
    ('c002', 'o-2', 3.00, TIMESTAMP '2026-01-05 08:30:00');
ASSERT VALUES orders_once (order_id, customer, amount, copies) VALUES ('o-1', 'c001', 12.50, 2);
