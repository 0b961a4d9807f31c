"""Fan-out: each group gets every record. Another reader is another group, and the producer knows none of them."""

from concurrent.futures import ThreadPoolExecutor

from shared import read, save, write

COUNT, GROUPS = 300, ("billing", "search", "audit")
write("events", COUNT)
with ThreadPoolExecutor(len(GROUPS)) as pool:
    numbers = list(pool.map(lambda group: set(read("events", group, COUNT)), GROUPS))
for group, seen in zip(GROUPS, numbers, strict=True):
    print(f"{group}: {len(seen)} of {COUNT} records")
save("fan-out", {group: len(seen) for group, seen in zip(GROUPS, numbers, strict=True)})
