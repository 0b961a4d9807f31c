"""After the run: reads everything and compares it with the acknowledgements."""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from tests.torture.ledger import Ledger
from tests.torture.producers import COMPACTED, COMPACTED_PARTITIONS, PARTITIONS, TOPICS
from tests.torture.raw_order import ORDERED

SILENCE_S = 60
PARTITION_EOF = KafkaError._PARTITION_EOF


def read_partition(address: str, topic: str, partition: int, ledger: Ledger) -> Iterator[Message]:
    """All records of a partition, from its start to its end. librdkafka checks each CRC."""
    settings = {"bootstrap.servers": address, "group.id": "judge", "enable.auto.commit": False}
    consumer = Consumer({**settings, "check.crcs": True, "enable.partition.eof": True, "log_level": 0})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    try:
        silence = 0
        while silence < SILENCE_S:
            # librdkafka returns before its time-out only with the requested number of messages.
            messages = consumer.consume(10_000, timeout=1)
            silence = 0 if messages else silence + 1
            for message in messages:
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == PARTITION_EOF:
                    return
                else:
                    ledger.problem(f"{topic}-{partition} cannot be read: {error}")
                    return
        ledger.problem(f"{topic}-{partition} is silent for {SILENCE_S} s before its end")
    finally:
        consumer.close()


def judge_plain(address: str, ledger: Ledger) -> None:
    """Each producer's records are there once, in order, at the acknowledged offsets."""
    for topic in TOPICS:
        for partition in range(PARTITIONS):
            next_sequence: dict[int, int] = {}
            next_offset = 0
            for message in read_partition(address, topic, partition, ledger):
                if message.offset() != next_offset:
                    ledger.problem(f"{topic}-{partition}: offset {message.offset()} follows {next_offset - 1}")
                next_offset = (message.offset() or 0) + 1
                producer, sequence = (int(word) for word in (message.value() or b"").split(b":")[:2])
                expected = next_sequence.get(producer, 0)
                if sequence != expected:
                    what = "again" if sequence < expected else f"in place of {expected}"
                    ledger.problem(f"{topic}-{partition}: record {sequence} of producer {producer} is there {what}")
                next_sequence[producer] = max(expected, sequence + 1)
                offsets = ledger.offsets.get((producer, (topic, partition)))
                if offsets is None or sequence >= len(offsets) or offsets[sequence] != message.offset():
                    ledger.problem(f"{topic}-{partition}: offset {message.offset()} was not acknowledged as such")
                ledger.count("judged")
            for (producer, where), offsets in ledger.offsets.items():
                if where == (topic, partition) and next_sequence.get(producer, 0) < len(offsets):
                    lost = len(offsets) - next_sequence.get(producer, 0)
                    ledger.problem(f"{topic}-{partition}: the last {lost} records of producer {producer} are lost")


def judge_compacted(address: str, ledger: Ledger) -> None:
    """The last record of each key is the last acknowledged one; a key that ended in a tombstone may be missing."""
    last: dict[bytes, int] = {}
    records = 0
    for partition in range(COMPACTED_PARTITIONS):
        for message in read_partition(address, COMPACTED, partition, ledger):
            key, value = message.key() or b"", message.value()
            last[key] = 0 if value is None else int(value)
            records += 1
    ledger.count("records in the compacted topic", records)
    for key, version in ledger.last_version.items():
        found = last.get(key, 0)
        if found != max(version, 0):
            ledger.problem(f"{COMPACTED}: {key!r} ends with version {found}, acknowledged was {version}")


def judge_order(address: str, ledger: Ledger) -> None:
    """The records of a raw connection are in the order of its requests."""
    last: dict[bytes, int] = {}
    for message in read_partition(address, ORDERED, 0, ledger):
        connection, number = (message.value() or b"").split(b":")
        if int(number) <= last.get(connection, 0):
            ledger.problem(f"{ORDERED}: record {number!r} of connection {connection!r} stands behind a later one")
        last[connection] = int(number)


def judge(address: str, ledger: Ledger) -> None:
    judge_plain(address, ledger)
    judge_compacted(address, ledger)
    judge_order(address, ledger)
