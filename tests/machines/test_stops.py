"""The time that producers stopped is computed from a history."""

from __future__ import annotations

from moldau.testing.history import Event, events
from tests.machines.stops import Round, stops


def acknowledged(operation: int, partition: int, at_ms: int, topic: str = "orders") -> list[Event]:
    send = events.Send(process="writer", operation=operation, topic=topic, record=str(operation), at_ms=at_ms - 5)
    return [send, events.Sent(process="writer", operation=operation, partition=partition, offset=0, at_ms=at_ms)]


def test_a_stop_is_the_longest_pause_of_any_partition_that_lies_in_the_round() -> None:
    times = {0: (1_000, 2_000, 9_000, 9_500), 1: (1_000, 4_000, 8_000, 9_500, 30_000)}
    told = [
        event
        for partition, each in times.items()
        for number, at_ms in enumerate(each)
        for event in acknowledged(partition * 10 + number, partition, at_ms)
    ]
    told += acknowledged(90, 0, 500, "source") + acknowledged(91, 0, 40_000, "source")
    rounds = [Round("cut", 1_500, 9_200), Round("cut", 10_000, 12_000), Round("cut", 50_000, 51_000)]
    assert stops(told, rounds, ["orders"]) == [7.0, 20.5, 0.0]
