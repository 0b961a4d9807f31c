"""Writes the orders of one till, 20 in a transaction: `python orders.py TILL TOPIC`.

The number of the next order is the committed offset of the group `till-TILL`, in the same transaction: a till that died
goes on after its last committed order.
"""

import json
import sys
import time
from random import Random

from shop import COPIER, NEW, OLD, SECONDS, TopicPartition, as_new, commit, partitions_of, reader, transactional

ORDERS, BATCH, PAUSE_S = 2_500, 20, 0.02


def orders_of(till):
    """Each till has three shops, each shop has ten customers. The old key is the shop."""
    draw = Random(till)
    for number in range(ORDERS):
        shop = 3 * till + draw.choices(range(3), [8, 1, 1])[0]
        customer = f"customer-{shop}-{draw.randint(0, 9)}"
        euros = f"{draw.randint(1, 200)}.{draw.randint(0, 99):02}"
        yield f"shop-{shop}", {"till": till, "number": number, "customer": customer, "euros": euros}


def wait_for_copier():
    """No record of this till may still wait for its copy: it would come after newer orders of its customer."""
    copier = reader(COPIER, **{"isolation.level": "read_uncommitted"})  # the end after open transactions too
    ends = {p.partition: copier.get_watermark_offsets(p, SECONDS)[1] for p in partitions_of(copier, OLD)}
    while any(p.offset < ends[p.partition] for p in copier.committed(partitions_of(copier, OLD), SECONDS)):
        time.sleep(0.05)
    copier.close()


def main(till, topic):
    producer = transactional(f"till-{till}")
    if topic == NEW:
        wait_for_copier()
    place = reader(f"till-{till}")
    written = max(0, place.committed([TopicPartition(OLD, 0)], SECONDS)[0].offset)
    orders = list(orders_of(till))
    while written < ORDERS:
        producer.begin_transaction()
        for shop, order in orders[written : written + BATCH]:
            key, value = (shop, json.dumps(order)) if topic == OLD else as_new(json.dumps(order))
            producer.produce(topic, value, key)
        written = min(written + BATCH, ORDERS)
        commit(producer, [TopicPartition(OLD, 0, written)], place.consumer_group_metadata())
        print(written, flush=True)
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
