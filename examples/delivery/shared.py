"""What the programs share: their arguments, the loop of a producer, and the records and the work of a consumer."""

import argparse
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Consumer, Message, Producer, TopicPartition

parser = argparse.ArgumentParser()
parser.add_argument("topic")
parser.add_argument("--bootstrap-server", default="127.0.0.1:9092")
parser.add_argument("--count", type=int, default=10**9, help="a producer ends after so many records")
parser.add_argument("--idle", type=float, default=3600.0, help="a consumer ends after so many seconds without records")
parser.add_argument("--target", help="the topic of the transactional copy")
parser.add_argument(
    "--effects", default="out/effects.txt", help="the work of a consumer is one line here for each record"
)
parser.add_argument("--database", default="out/effects.db")
options = parser.parse_args()
Path(options.effects).parent.mkdir(exist_ok=True)
address = {"bootstrap.servers": options.bootstrap_server}
BATCH = 20


def send_numbers(settings: dict[str, object]) -> None:
    """Sends 0, 1, 2, ... until SIGTERM. Prints `+N` once the client says that N is written, `-N` if it says not."""
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    producer = Producer({**address, "linger.ms": 1, **settings})

    def report(error: object, message: Message) -> None:
        print(f"{'-' if error else '+'}{message.value().decode()}")

    for number in range(options.count):
        producer.produce(options.topic, b"%d" % number, on_delivery=report)
        producer.poll(0.02)
        if stopped:
            break
    producer.flush()


def group_member() -> Consumer:
    """The only member of its group. As a static member it gets its partitions back at once after a kill."""
    settings = {"group.id": f"of-{options.topic}", "group.instance.id": "one", "auto.offset.reset": "earliest"}
    return Consumer({**address, **settings, "enable.auto.commit": False, "isolation.level": "read_committed"})


def batches(consumer: Consumer) -> Iterator[list[Message]]:
    """Batches of records, until none comes for a while."""
    consumer.subscribe([options.topic])
    last = time.monotonic()
    while time.monotonic() - last < options.idle:
        batch = [message for message in consumer.consume(BATCH, 0.1) if not message.error()]
        if batch:
            yield batch
            last = time.monotonic()


def after(batch: list[Message]) -> list[TopicPartition]:
    """The offsets to commit for a batch."""
    last = {message.partition(): message.offset() for message in batch}
    return [TopicPartition(options.topic, partition, offset + 1) for partition, offset in last.items()]


def work(message: Message) -> None:
    """The effect of a record outside of Kafka, such as a letter that is sent. kill -9 does not undo it."""
    file = os.open(options.effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, message.value() + b"\n")
    os.close(file)
    take_time()


def take_time() -> None:
    """Of the work for one record."""
    time.sleep(0.002)
