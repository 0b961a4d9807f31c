"""A canary: an ordinary client that produces and consumes while other clients misbehave, and must notice nothing."""

from __future__ import annotations

import threading

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic


class Canary:
    """Writes a numbered record every 10 ms; at the end all records are there once, in order, without errors."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.topic = "canary"
        self.problems: list[object] = []
        self._written = 0
        self._ending = threading.Event()
        admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        for future in admin.create_topics([NewTopic(self.topic, 1, 1)]).values():
            if future.exception() is not None and "already exists" not in str(future.exception()):
                raise RuntimeError(future.exception())
        consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "canary"})
        self._first = consumer.get_watermark_offsets(TopicPartition(self.topic, 0), timeout=30)[1]
        consumer.close()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        def delivered(error: object, message: object) -> None:
            if error is not None:
                self.problems.append(error)

        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 0,
                "error_cb": self.problems.append,
                "on_delivery": delivered,
            }
        )
        while not self._ending.wait(0.01):
            producer.produce(self.topic, b"%d" % self._written)
            self._written += 1
            producer.poll(0)
        if producer.flush(30):
            self.problems.append("records were not acknowledged")

    def finish(self) -> None:
        self._ending.set()
        self._thread.join(60)
        assert not self.problems, self.problems[:3]
        consumer = Consumer({"bootstrap.servers": self.bootstrap_servers, "group.id": "canary", "check.crcs": True})
        consumer.assign([TopicPartition(self.topic, 0, self._first or OFFSET_BEGINNING)])
        for number in range(self._written):
            message = consumer.poll(30)
            assert message is not None
            assert not message.error(), message.error()
            assert message.value() == b"%d" % number
        consumer.close()
