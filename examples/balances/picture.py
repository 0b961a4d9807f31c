"""Draws the balance of each account: result.png."""

import sqlite3

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

rows = (
    sqlite3.connect("out/balances.db")
    .execute("select account, bookings, cents from balances order by cents")
    .fetchall()
)
figure, axes = pyplot.subplots(figsize=(8, 3))
axes.barh([account for account, _, _ in rows], [cents / 100 for _, _, cents in rows], color="#0e7490")
axes.set(xlabel="balance")
figure.tight_layout()
figure.savefig("result.png")
print(f"{len(rows)} accounts, {sum(row[1] for row in rows)} bookings, {sum(row[2] for row in rows) / 100:.2f} in all")
