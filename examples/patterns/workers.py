"""Competing workers: the members of one group share the partitions. When one leaves, the others take its partitions."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from shared import member, save, write

COUNT, LEAVES_AFTER = 300, 30
done: list[tuple[str, int]] = []
all_joined = threading.Barrier(4)


def work(name: str) -> None:
    consumer = member("workers")
    consumer.subscribe(["jobs"])
    while len(consumer.assignment()) != 2:  # of six partitions
        consumer.poll(0.1)
    all_joined.wait(60)
    mine = 0
    while len(done) < COUNT and (name != "third" or mine < LEAVES_AFTER):
        message = consumer.poll(0.1)
        if message is not None and not message.error():
            done.append((name, int(message.value())))
            mine += 1
            consumer.commit(message, asynchronous=False)
    consumer.close()


with ThreadPoolExecutor(3) as pool:
    workers = [pool.submit(work, name) for name in ("first", "second", "third")]
    all_joined.wait(60)
    write("jobs", COUNT, partitions=6)
    for worker in workers:
        worker.result()
times = Counter(number for _, number in done)
twice = sum(count > 1 for count in times.values())
of_third = sum(name == "third" for name, _ in done)
print(f"{len(times)} jobs done, {twice} of them twice; the third left after {of_third}")
save("workers", done)
