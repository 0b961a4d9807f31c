"""The cost of many idempotent producers on one partition: appends below and above `moldau.producer.ids`, a segment
roll, a slice of producer expiry, and the start after kill -9.

    python benchmarks/micro/producer_ids.py [--producers 211000] [--directory DIR]

Each producer writes one batch of one record.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import statistics
import struct
import tempfile
import time
from collections.abc import Callable

from moldau.core.log.directories.directory import LogDirectory
from moldau.core.log.log import AppendOrigin, Log
from moldau.core.log.settings import LogSettings
from moldau.shell.io.disk import OsDisk
from moldau.types import METADATA_TOPIC_ID, TopicPartition
from moldau.wire.records.batch import write_crc
from moldau.wire.records.builder import build_batch

NOW_MS = 1_800_000_000_000
BOUND = 100_000
SETTINGS = LogSettings(segment_bytes=1 << 30, max_producer_ids=BOUND, producer_id_expiration_ms=86_400_000)
TEMPLATE = build_batch([(None, b"v" * 100, NOW_MS, ())], producer_id=1, producer_epoch=0, base_sequence=0)


def append_each(log: Log, first: int, end: int) -> list[float]:
    """Appends one batch for each producer from `first` to `end`; gives the seconds of each append."""
    batch = bytearray(TEMPLATE)
    taken = []
    for producer_id in range(first, end):
        struct.pack_into(">q", batch, 0, 0)
        struct.pack_into(">q", batch, 43, producer_id)
        write_crc(batch, 0, len(batch))
        begin = time.perf_counter()
        log.append(batch, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.CLIENT)
        taken.append(time.perf_counter() - begin)
    return taken


def seconds_of(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def measure(parent: str | None = None, producers: int = 211_000) -> dict[str, float]:
    root = tempfile.mkdtemp(prefix="moldau-producer-ids-", dir=parent)
    gc.collect()
    gc.disable()
    try:
        directory = LogDirectory.open(OsDisk(root))
        log = directory.create_log(TopicPartition("producers", 0), METADATA_TOPIC_ID, SETTINGS, now_ms=NOW_MS)
        below = append_each(log, 0, BOUND)
        above = append_each(log, BOUND, producers)
        directory.release()
        begin = time.perf_counter()
        (log,) = LogDirectory.open(OsDisk(root)).open_all(lambda topic: SETTINGS, NOW_MS)
        recovered = time.perf_counter() - begin
        if len(log.producer_state.entries) != BOUND:
            raise SystemExit(f"{len(log.producer_state.entries)} producers after the start, not {BOUND}")
        roll = seconds_of(lambda: log.roll(NOW_MS))
        expiry = seconds_of(lambda: log.forget_idle_producers(NOW_MS + SETTINGS.producer_id_expiration_ms))
        log.release()
    finally:
        gc.enable()
        shutil.rmtree(root)
    return {
        "append_below_us": round(statistics.median(below) * 1e6, 2),
        "append_above_us": round(statistics.median(above) * 1e6, 2),
        "append_above_p999_ms": round(sorted(above)[int(len(above) * 0.999)] * 1e3, 3),
        "roll_ms": round(roll * 1e3, 1),
        "expiry_slice_ms": round(expiry * 1e3, 2),
        "open_after_kill_s": round(recovered, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--producers", type=int, default=211_000)
    parser.add_argument("--directory", help="where to write (default: the system's temporary directory)")
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.directory, arguments.producers), indent=2))


if __name__ == "__main__":
    main()
