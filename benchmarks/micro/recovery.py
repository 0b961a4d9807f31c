"""The time to open a log: after kill -9 (everything is read again) and after a clean stop.

    python benchmarks/micro/recovery.py [--megabytes 1024] [--directory DIR] [--json]

Writes one partition of 16 KiB batches and one of batches of one 100-byte record, each with an idempotent producer, then
opens them as a new process would. The page cache is warm, as it is after kill -9 of the broker.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import struct
import tempfile
import time

from moldau.core.log.directories.directory import LogDirectory
from moldau.core.log.log import AppendOrigin, Log
from moldau.core.log.settings import LogSettings
from moldau.shell.io.disk import OsDisk
from moldau.types import METADATA_TOPIC_ID, TopicPartition
from moldau.wire.records.batch import write_crc
from moldau.wire.records.builder import build_batch

NOW_MS = 1_800_000_000_000
# one segment holds all: the worst case, because full and flushed segments are not read again
SETTINGS = LogSettings(segment_bytes=0x7FFFFFFF, segment_index_bytes=1 << 27)
WORKLOADS = {
    "16 KiB batches": build_batch(
        [(None, b"v" * 1000, NOW_MS, ())] * 16, producer_id=1, producer_epoch=0, base_sequence=0
    ),
    "one-record batches, 100 B": build_batch(
        [(None, b"v" * 100, NOW_MS, ())], producer_id=1, producer_epoch=0, base_sequence=0
    ),
}


def fill(log: Log, template: bytes, total_bytes: int) -> int:
    """Appends the template with rising sequences until the log holds `total_bytes`; gives the number of batches."""
    batch = bytearray(template)
    records = struct.unpack_from(">i", batch, 57)[0]
    count = 0
    while log.size_bytes < total_bytes:
        struct.pack_into(">q", batch, 0, 0)
        struct.pack_into(">i", batch, 53, count * records & 0x7FFFFFFF)
        write_crc(batch, 0, len(batch))
        log.append(batch, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.CLIENT)
        count += 1
    return count


def timed_open(root: str) -> tuple[float, Log]:
    """The seconds from reading the checkpoints until the log accepts appends."""
    gc.collect()
    begin = time.perf_counter()
    directory = LogDirectory.open(OsDisk(root))
    (log,) = directory.open_all(lambda topic: SETTINGS, NOW_MS)
    return time.perf_counter() - begin, log


def measure(name: str, template: bytes, total_bytes: int, parent: str | None) -> dict[str, object]:
    root = tempfile.mkdtemp(prefix="moldau-recovery-", dir=parent)
    try:
        directory = LogDirectory.open(OsDisk(root))
        key = TopicPartition("recovery", 0)
        log = directory.create_log(key, METADATA_TOPIC_ID, SETTINGS, now_ms=NOW_MS)
        begin = time.perf_counter()
        batches = fill(log, template, total_bytes)
        filled = time.perf_counter() - begin
        end_offset = log.log_end_offset
        directory.release()
        after_kill, log = timed_open(root)
        if log.log_end_offset != end_offset or log.cuts:
            raise SystemExit(f"{name}: recovered to {log.log_end_offset}, not {end_offset}")
        directory = LogDirectory(OsDisk(root))
        directory.logs[key] = log
        directory.close(broker_epoch=1, now_ms=NOW_MS, high_watermarks={key: end_offset})
        after_clean_stop, log = timed_open(root)
        if log.log_end_offset != end_offset:
            raise SystemExit(f"{name}: opened at {log.log_end_offset}, not {end_offset}")
        log.release()
    finally:
        shutil.rmtree(root)
    return {
        "workload": name,
        "batches": batches,
        "megabytes": total_bytes >> 20,
        "append_us_per_batch": round(filled / batches * 1e6, 2),
        "open_after_kill_s": round(after_kill, 3),
        "open_after_clean_stop_s": round(after_clean_stop, 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--directory", help="where to write (default: the system's temporary directory)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = [
        measure(name, template, arguments.megabytes << 20, arguments.directory) for name, template in WORKLOADS.items()
    ]
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        print(
            f"{row['workload']:28} {row['megabytes']:>5} MB {row['batches']:>9} batches   "
            f"append {row['append_us_per_batch']:>6} us   after kill -9 {row['open_after_kill_s']:>7} s   "
            f"after a clean stop {row['open_after_clean_stop_s']:>7} s"
        )


if __name__ == "__main__":
    main()
