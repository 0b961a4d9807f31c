"""Administrators of scripted brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from moldau.client.admin.client import ClusterAdmin
from moldau.client.protocol.access import ClusterAccess
from tests.support.scripted_brokers import ScriptedBrokers


@pytest.fixture
def admin_of() -> Iterator[Callable[[ScriptedBrokers], ClusterAdmin]]:
    made: list[ClusterAdmin] = []

    def make(brokers: ScriptedBrokers) -> ClusterAdmin:
        made.append(ClusterAdmin(brokers, ClusterAccess("one:9092", client_id="test")))
        return made[-1]

    yield make
    for admin in made:
        admin.client.close()
