"""Prints two thousand orders as JSON lines; a few name a customer that is missing in the table."""

import json
from random import Random

draw = Random(19)
for order in range(2_000):
    print(json.dumps({"order": order, "customer": draw.randint(0, 41), "cents": draw.randint(100, 20_000)}))
