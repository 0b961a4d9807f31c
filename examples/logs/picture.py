"""Draws requests and errors of each minute, and the minutes with many errors: result.png."""

import sqlite3

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

logs = sqlite3.connect("out/logs.db")
minutes = logs.execute("select minute, requests, errors from minutes order by minute").fetchall()
anomalies = logs.execute("select minute, requests, errors from anomalies order by minute").fetchall()
times = [minute[11:16] for minute, _, _ in minutes]
figure, axes = pyplot.subplots(figsize=(8, 3))
axes.plot(times, [requests for _, requests, _ in minutes], color="#9fc5d8", label="requests")
axes.plot(times, [errors for _, _, errors in minutes], color="#c2410c", label="errors")
axes.scatter([minute[11:16] for minute, _, _ in anomalies], [errors for _, _, errors in anomalies], color="#b91c1c")
axes.set(xlabel="minute (UTC)")
axes.set_xticks(times[::20])
axes.legend(frameon=False)
figure.tight_layout()
figure.savefig("result.png")
requests = sum(requests for _, requests, _ in minutes)
first, last = anomalies[0][0][11:16], anomalies[-1][0][11:16]
print(f"{requests} requests; many errors in {len(anomalies)} minutes, {first} to {last}")
