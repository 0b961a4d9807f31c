"""Deposits, withdrawals and transfers between accounts as JSON lines: events in the order in which they happened."""

import json
from random import Random

draw = Random(3)
accounts = [f"account-{number}" for number in range(12)]
for account in accounts:
    print(json.dumps({"kind": "deposited", "account": account, "cents": 100_000}))
for _ in range(3_000):
    kind = draw.choice(["deposited", "withdrawn", "transferred", "transferred"])
    account, other = draw.sample(accounts, 2)
    event = {"kind": kind, "account": account, "cents": draw.randint(1, 5_000)}
    print(json.dumps(event | ({"to": other} if kind == "transferred" else {})))
