"""A transactional copier on librdkafka, as a process that can be killed: `python -m tests.exactly_once.copier`.

Each transaction has some records of the source, written to the same partition of the target, and the offset after them.
It prints a line after each commit, and one when the whole source is copied. It writes its operations and their results
into a history.
"""

from __future__ import annotations

import argparse
import os
import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from moldau.testing import history

BATCH = 20
TIMEOUT_S = 60.0
COMMITTED, AT_END = "committed", "at the end"
SESSION_TIMEOUT_MS = 6_000


class Copier:
    """`is_member`: the group assigns the partitions; otherwise the copier takes all of them."""

    def __init__(
        self,
        bootstrap_servers: str,
        source: str,
        target: str,
        group: str,
        recorder: history.Recorder,
        *,
        is_member: bool,
    ) -> None:
        self.source, self.target, self.is_member = source, target, is_member
        life = f"copier-{os.getpid()}"
        common = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        self.consumer = recorder.consumer(
            common
            | {
                "group.id": group,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "session.timeout.ms": SESSION_TIMEOUT_MS,
            },
            life,
        )
        settings = {"transactional.id": f"copy-{group}", "transaction.timeout.ms": 60_000}
        self.producer = recorder.producer(common | settings, life)
        self.ended: dict[int, bool] = {}

    def run(self) -> None:
        self.producer.init_transactions(TIMEOUT_S)
        if self.is_member:
            self.consumer.subscribe([self.source], on_assign=self._assigned)
        else:
            self._assign_all()
        while True:
            try:
                self._copy_some()
            except KafkaException as error:
                reason = error.args[0]
                if reason.fatal() or not reason.txn_requires_abort():
                    raise
                self.producer.abort_transaction(TIMEOUT_S)
                self._go_back()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.ended = {partition.partition: False for partition in partitions}

    def _assign_all(self) -> None:
        found = self.consumer.list_topics(self.source, TIMEOUT_S).topics[self.source].partitions
        asked = [TopicPartition(self.source, partition) for partition in found]
        # waits for an open transaction of an earlier life
        committed = self.consumer.committed(asked, TIMEOUT_S)
        self.consumer.assign([_begin_of(partition) for partition in committed])
        self.ended = dict.fromkeys(found, False)

    def _go_back(self) -> None:
        """Returns to the committed offsets: nothing of an aborted transaction counts."""
        for partition in self.consumer.committed(self.consumer.assignment(), TIMEOUT_S):
            self.consumer.seek(_begin_of(partition))

    def _copy_some(self) -> None:
        messages = self.consumer.consume(BATCH, timeout=0.2)
        records = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
                self.ended[message.partition()] = False
            elif error.code() == KafkaError._PARTITION_EOF:
                self.ended[message.partition()] = True
        if records:
            self._copy(records)
        elif self.ended and all(self.ended.values()):
            print(AT_END, flush=True)
            self.ended = dict.fromkeys(self.ended, False)

    def _copy(self, records: list) -> None:
        self.producer.begin_transaction()
        for record in records:
            self.producer.produce(self.target, record.value(), record.key(), record.partition())
        positions = {record.partition(): record.offset() + 1 for record in records}
        offsets = [TopicPartition(self.source, partition, offset) for partition, offset in positions.items()]
        self.producer.send_offsets_to_transaction(offsets, self.consumer.consumer_group_metadata(), TIMEOUT_S)
        self.producer.commit_transaction(TIMEOUT_S)
        print(COMMITTED, len(records), flush=True)


def _begin_of(committed: TopicPartition) -> TopicPartition:
    offset = committed.offset if committed.offset >= 0 else OFFSET_BEGINNING
    return TopicPartition(committed.topic, committed.partition, offset)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.exactly_once.copier", description=__doc__)
    for name in ("bootstrap_servers", "source", "target", "group", "history"):
        parser.add_argument(name)
    parser.add_argument("--member", action="store_true")
    options = parser.parse_args()
    names = options.bootstrap_servers, options.source, options.target, options.group
    with history.record(options.history) as recorder:
        Copier(*names, recorder, is_member=options.member).run()


if __name__ == "__main__":
    sys.exit(main())
