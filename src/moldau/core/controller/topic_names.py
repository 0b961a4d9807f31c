"""The check of topic names, with Kafka's messages."""

from __future__ import annotations

from moldau.types import METADATA_PARTITION

MAX_NAME_LENGTH = 249
CLUSTER_METADATA_TOPIC = METADATA_PARTITION.topic

_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def topic_name_fault(name: str) -> str | None:
    """The error of an illegal topic name: 17, or 3 where Kafka responds with 3. None for a legal one."""
    if name == "":
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return (
            f"Topic name is invalid: the length of '{name[:MAX_NAME_LENGTH]}...' is longer than the max allowed length "
            f"{MAX_NAME_LENGTH}"
        )
    if not _ALLOWED.issuperset(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return None
