"""Queries the mirrored table with DuckDB, and draws the result: result.png."""

import duckdb
import matplotlib
from deltalake import DeltaTable

matplotlib.use("Agg")
from matplotlib import pyplot

customers = DeltaTable("out/customers").to_pyarrow_dataset()
rows = duckdb.sql(
    "select city, count(*) as customers from customers group by city order by customers desc, city"
).fetchall()
figure, axes = pyplot.subplots(figsize=(8, 2.6))
axes.barh([city for city, _ in reversed(rows)], [count for _, count in reversed(rows)], color="#0e7490")
axes.set(xlabel="customers")
figure.tight_layout()
figure.savefig("result.png")
for city, count in rows:
    print(f"{city} {count}")
