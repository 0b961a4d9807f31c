"""The column `disk` of `moldau brokers list`."""

from __future__ import annotations

import pytest

from moldau.cli.administration.broker_disks import disk_in_words, disks_of, size
from moldau.client.protocol.access import ClusterAccess
from moldau.errors import ERROR_CODES
from moldau.testing import Cluster
from moldau.wire.protocol.messages.cluster import DescribeClusterBroker
from moldau.wire.protocol.messages.log_dirs import DescribeLogDirsResult

FAILED = DescribeLogDirsResult(ERROR_CODES["KAFKA_STORAGE_ERROR"], "/b")
GIB = 1 << 30


def directory(total: int, usable: int) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(log_dir="/a", total_bytes=total, usable_bytes=usable)


@pytest.mark.parametrize(
    ("directories", "has_offline", "words"),
    [
        ((directory(100 * GIB, 40 * GIB), directory(10 * GIB, 3 * GIB)), False, "3.0 GiB of 10.0 GiB free"),
        ((directory(100 * GIB, 4 << 20),), True, "full: 4.0 MiB of 100 GiB free"),
        ((directory(100 * GIB, 40 * GIB), FAILED), True, "failed: /b"),
        ((directory(-1, -1),), True, "full"),
        ((directory(-1, -1),), False, None),
        ((), True, None),
    ],
)
def test_the_least_room_is_shown_and_what_is_wrong(
    directories: tuple[DescribeLogDirsResult, ...], has_offline: bool, words: str | None
) -> None:
    assert disk_in_words(directories, has_offline=has_offline) == words


def test_sizes_have_units_of_1024() -> None:
    assert [size(count) for count in (0, 1023, 1024, 1536 << 20, 1 << 60)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 GiB",
        "1024 PiB",
    ]


def test_a_broker_that_is_gone_is_told_apart_from_one_without_sizes() -> None:
    with Cluster() as cluster:
        host, _, port = cluster.bootstrap_servers.rpartition(":")
        rows = [DescribeClusterBroker(1, host, int(port)), DescribeClusterBroker(2, "127.0.0.1", 9)]
        disks = disks_of(ClusterAccess(cluster.bootstrap_servers), rows)
    assert disks[2] is None
    assert [one.error_code for one in disks[1] or ()] == [0]
