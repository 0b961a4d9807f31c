"""A day of orders from three shops as they come: amounts in two notations, customers in any case, some orders twice
within minutes, some impossible, some lines cut. `python orders.py customers` prints the customers."""

import json
import sys
from datetime import datetime, timedelta
from random import Random

draw = Random(33)
begin = datetime(2026, 1, 5, 8)
customers = {f"c{number:03}": draw.choice(["CZ", "AT", "DE"]) for number in range(60)}
lines = []
for number in range(1000):
    at = begin + timedelta(seconds=30 * number + draw.randint(0, 20))
    customer = draw.choice(list(customers)) if draw.random() < 0.97 else f"x{number}"
    amount = f"{draw.expovariate(1 / 60) + 1:.2f}"
    if draw.random() < 0.3:
        amount = amount.replace(".", ",")
    if draw.random() < 0.03:
        amount = draw.choice(["", "n/a", "-5.00"])
    written = draw.choice([customer, customer.upper(), f" {customer} "])
    order = {"id": f"o-{number}", "customer": written, "amount": amount, "at": at.isoformat() + "Z"}
    line = json.dumps(order)
    lines.append((at, line if draw.random() > 0.01 else line[: draw.randint(5, 30)]))
    if draw.random() < 0.05:  # the shop did not get the answer, and sends it again
        lines.append((at + timedelta(seconds=draw.randint(5, 300)), line))
if "customers" in sys.argv:
    for customer, country in customers.items():
        print(customer, json.dumps({"country": country}), sep="\t")
else:
    for _, line in sorted(lines):
        print(line)
