"""Formats the directories of a new cluster of several brokers."""

from __future__ import annotations

import time
from collections.abc import Collection

from moldau.core.metadata.image import BrokerListener
from moldau.core.metadata.random_uuid import random_uuid
from moldau.errors import MoldauError
from moldau.shell.io.random import SystemRandom
from moldau.shell.node.storage_format import META_PROPERTIES, format_directory
from moldau.testing.member import Member
from moldau.types import BrokerId, uuid_to_text


def format_members(members: Collection[Member]) -> None:
    """Formats the directories of all members, unless all are formatted. Raises MoldauError if only some are."""
    new = [member for member in members if not member.disk.exists(META_PROPERTIES)]
    if not new:
        return
    if len(new) < len(members):
        names = ", ".join(str(member.node_id) for member in new)
        raise MoldauError(f"the data directory is of a cluster of other brokers: nothing is there of {names}")
    random = SystemRandom()
    cluster_id = uuid_to_text(random_uuid(random))
    for member in new:
        format_directory(
            member.disk,
            random,
            now_ms=time.time_ns() // 1_000_000,
            node_id=BrokerId(member.node_id),
            controller_listener=BrokerListener("CONTROLLER", "", 0),
            cluster_id=cluster_id,
            initial_controllers=(),  # `controller.quorum.voters` names them
        )
