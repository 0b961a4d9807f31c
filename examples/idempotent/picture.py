"""Draws the balances of the projection."""

import sqlite3

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

rows = sqlite3.connect("balances.db").execute("SELECT account, balance FROM balances ORDER BY account").fetchall()
figure, axes = pyplot.subplots(figsize=(5, 2.5))
axes.barh([account for account, _ in rows], [balance for _, balance in rows], color="#4c78a8")
axes.set_title("Balances: the sum of all entries")
figure.tight_layout()
figure.savefig("result.png", dpi=110)
