"""The partition of `__consumer_offsets` for a group, as every Kafka broker and tool computes it."""

from __future__ import annotations


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 code units, 32 bits with sign."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8 | units[position + 1])) & 0xFFFF_FFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for_group(group_id: str, partitions: int) -> int:
    """The partition, in [0, partitions), whose leader coordinates `group_id`."""
    value = java_string_hash(group_id)
    # Kafka's Utils.abs: the one number without a positive counterpart counts as 0
    return 0 if value == -(1 << 31) else abs(value) % partitions
