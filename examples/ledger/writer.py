"""Writes transfers as double entries, ten transfers in a transaction: `python writer.py BROKER`.

The number of the next transfer is the committed offset of the group `ledger-writer`, in the same transaction: a writer
that died goes on after its last committed transfer.
"""

import json
import signal
import sys
import time

from book import ENTRIES, SECONDS, client, transfers
from confluent_kafka import Consumer, Producer, TopicPartition

BATCH, PAUSE_S = 10, 0.01

producer = Producer(client(sys.argv[1]) | {"transactional.id": "ledger-writer", "transaction.timeout.ms": 20_000})
producer.init_transactions(SECONDS)  # an earlier writer cannot write any more; what it left open is aborted
place = Consumer(client(sys.argv[1]) | {"group.id": "ledger-writer", "isolation.level": "read_committed"})
booked = max(0, place.committed([TopicPartition(ENTRIES, 0)], SECONDS)[0].offset)
book = transfers()
while booked < len(book):
    signal.alarm(int(SECONDS))  # ends the program if the transaction hangs (librdkafka's issue 5456)
    producer.begin_transaction()
    for number, (giver, taker, cents) in enumerate(book[booked : booked + BATCH], booked):
        for account, change in ((giver, -cents), (taker, cents)):
            producer.produce(ENTRIES, json.dumps({"transfer": number, "account": account, "cents": change}), account)
    booked = min(booked + BATCH, len(book))
    offsets = [TopicPartition(ENTRIES, 0, booked)]
    producer.send_offsets_to_transaction(offsets, place.consumer_group_metadata(), SECONDS)
    producer.commit_transaction(SECONDS)
    signal.alarm(0)
    print(booked, flush=True)
    time.sleep(PAUSE_S)
