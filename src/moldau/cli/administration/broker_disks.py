"""Asks each broker for its disks, each on its own connection: an unreachable broker does not delay the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from moldau.client.protocol.access import ClusterAccess
    from moldau.wire.protocol.messages.cluster import DescribeClusterBroker
    from moldau.wire.protocol.messages.log_dirs import DescribeLogDirsResult

PATIENCE_MS = 5_000
AT_ONCE = 16
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


Disks = tuple["DescribeLogDirsResult", ...]


def disks_of(access: ClusterAccess, brokers: Iterable[DescribeClusterBroker]) -> dict[int, Disks | None]:
    """The log directories of each broker, without their replicas; None for a broker that does not answer."""
    asked = list(brokers)
    own = replace(access, connect_timeout_ms=PATIENCE_MS, request_timeout_ms=PATIENCE_MS)
    if not asked:
        return {}
    with ThreadPoolExecutor(max_workers=min(AT_ONCE, len(asked))) as threads:
        answers = threads.map(lambda row: _ask(own, row.host, row.port), asked)
        return dict(zip((row.broker_id for row in asked), answers, strict=True))


def _ask(access: ClusterAccess, host: str, port: int) -> Disks | None:
    from moldau.errors import MoldauError
    from moldau.transport.access import open_connection
    from moldau.wire.protocol.messages.log_dirs import DescribeLogDirsRequest

    try:
        with open_connection(access, host, port) as connection:
            return connection.request(DescribeLogDirsRequest(topics=())).results
    except MoldauError:
        return None


def disk_in_words(directories: Sequence[DescribeLogDirsResult], *, has_offline: bool) -> str | None:
    """The directory with the least room, or the problem. `has_offline`: the cluster counts a replica of the broker as
    offline; if no directory has failed, one is full."""
    failed = [row.log_dir for row in directories if row.error_code]
    if failed:
        return f"failed: {', '.join(failed)}"
    known = [row for row in directories if row.total_bytes >= 0]
    if not known:
        return "full" if directories and has_offline else None
    least = min(known, key=lambda row: row.usable_bytes)
    free = f"{size(least.usable_bytes)} of {size(least.total_bytes)} free"
    return f"full: {free}" if has_offline else free


def size(count: int) -> str:
    """Bytes in readable form: `3.9 GiB`."""
    value, unit = float(count), 0
    while value >= 1024 and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} {UNITS[unit]}" if unit == 0 or value >= 100 else f"{value:.1f} {UNITS[unit]}"
