"""Makes the table `customers` in PostgreSQL, with forty rows."""

import os

import psycopg

cities = ["Brno", "Praha", "Plzeň", "Ostrava", "Písek"]
with psycopg.connect(os.environ["POSTGRESQL"]) as connection:
    connection.execute("create table customers (id bigint primary key, name text not null, city text not null)")
    rows = [(number, f"customer {number}", cities[number % len(cities)]) for number in range(40)]
    connection.cursor().executemany("insert into customers values (%s, %s, %s)", rows)
print(f"{len(rows)} customers")
