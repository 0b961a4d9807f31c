"""Asks PostgreSQL for the purchases of each city, and draws them: result.png."""

import os

import matplotlib
import psycopg

matplotlib.use("Agg")
from matplotlib import pyplot

with psycopg.connect(os.environ["POSTGRESQL"]) as connection:
    rows = connection.execute("select city, orders, cents from cities order by cents desc, city").fetchall()
figure, axes = pyplot.subplots(figsize=(8, 2.6))
axes.barh([city for city, _, _ in reversed(rows)], [cents / 100 for _, _, cents in reversed(rows)], color="#0e7490")
axes.set(xlabel="bought for")
figure.tight_layout()
figure.savefig("result.png")
for city, orders, cents in rows:
    print(f"{city}: {orders} orders, {cents / 100:.2f}")
