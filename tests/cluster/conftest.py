"""Brokers in their own processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.watched_broker import StartBroker, WatchedBroker


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[StartBroker]:
    started: list[WatchedBroker] = []

    def start(*settings: str) -> WatchedBroker:
        started.append(WatchedBroker(*settings, directory=tmp_path / "data"))
        return started[-1]

    yield start
    for broker in started:
        broker.finish()
