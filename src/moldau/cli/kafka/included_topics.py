"""A consumer of topics that match a Java pattern: librdkafka cannot subscribe to one."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

_LOOKED_EVERY_S = 5.0
_LOOK_TIMEOUT_S = 10.0


class IncludedTopics:
    """`left_out`: topics that the expression leaves out. `callbacks`: for the subscription."""

    def __init__(
        self, consumer: Any, pattern: re.Pattern[str], left_out: tuple[str, ...], **callbacks: Callable[..., None]
    ) -> None:
        self._consumer = consumer
        self._pattern = pattern
        self._left_out = left_out
        self._callbacks = callbacks
        self._subscribed: list[str] = []
        self._looked_s = -_LOOKED_EVERY_S

    def look(self) -> None:
        """Subscribes to the matching topics that exist; lists topics only once in a while."""
        from confluent_kafka import KafkaException

        now_s = time.monotonic()
        if now_s - self._looked_s < _LOOKED_EVERY_S:
            return
        self._looked_s = now_s
        try:
            topics = self._consumer.list_topics(timeout=_LOOK_TIMEOUT_S).topics
        except KafkaException:
            return  # `unreachable_warning` has reported it
        found = sorted(name for name in topics if self._pattern.fullmatch(name) and name not in self._left_out)
        if found != self._subscribed:
            self._subscribed = found
            self._consumer.subscribe(found, **self._callbacks) if found else self._consumer.unsubscribe()
