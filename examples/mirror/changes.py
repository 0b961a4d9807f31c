"""Changes of a customer table from a database's log, as JSON lines: c(reated), u(pdated), d(eleted), with the number of
the change (lsn). Some changes come twice or late, as after a restart of the program that reads the log."""

import json
from random import Random

draw = Random(5)
cities = ["Brno", "Praha", "Plzeň", "Ostrava", "Písek"]
changes = []
for lsn in range(2_000):
    customer = draw.randint(1, 150)
    op = "c" if lsn < 150 else draw.choice("uuuuuuuud")
    changes.append({"op": op, "lsn": lsn, "id": lsn + 1 if lsn < 150 else customer, "city": draw.choice(cities)})
late = draw.sample(changes, 200)
for change in [*changes, *late]:
    print(json.dumps(change, ensure_ascii=False))
