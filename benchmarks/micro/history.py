"""The cost of checking a long history: seconds, and the peak memory of the process.

    python benchmarks/micro/history.py [--records 2000000] [--file PATH]

Eight producers write to six partitions, four of them in transactions of twenty records; two members of a group commit
after each poll of five hundred records. At the end everything is read.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from moldau.testing.history import Event, HistoryFile, judge
from moldau.testing.history import events as ev

PARTITIONS, PRODUCERS, TRANSACTION, POLL = 6, 8, 20, 500


def execution(records: int) -> Iterator[Event]:
    ends = [0] * PARTITIONS
    unread: list[list[tuple[int, str]]] = [[] for _ in range(PARTITIONS)]
    everything: list[list[tuple[int, str]]] = [[] for _ in range(PARTITIONS)]
    operation = 0
    for member in ("c0", "c1"):
        yield ev.ConsumerStarts(process=member, group="g")
    yield ev.Assigned(process="c0", positions={f"orders-{index}": None for index in range(0, PARTITIONS, 2)})
    yield ev.Assigned(process="c1", positions={f"orders-{index}": None for index in range(1, PARTITIONS, 2)})
    for batch in range(records // TRANSACTION):
        process, partition = f"p{batch % PRODUCERS}", batch % PARTITIONS
        number = batch if batch % PRODUCERS < PRODUCERS // 2 else None
        if number is not None:
            yield ev.TransactionBegins(process=process, transaction=number)
        first = operation + 1
        for operation in range(first, first + TRANSACTION):
            yield ev.Send(
                process=process, operation=operation, topic="orders", record=f"r{operation}", transaction=number
            )
        for one in range(first, first + TRANSACTION):
            yield ev.Sent(process=process, operation=one, partition=partition, offset=ends[partition])
            unread[partition].append((ends[partition], f"r{one}"))
            ends[partition] += 1
        if number is not None:
            operation += 1
            yield ev.TransactionEnds(process=process, operation=operation, transaction=number, commit=True)
            yield ev.Done(process=process, operation=operation)
            ends[partition] += 1
        if len(unread[partition]) >= POLL:
            member, where, operation = f"c{partition % 2}", f"orders-{partition}", operation + 1
            yield ev.Poll(process=member, records={where: tuple(unread[partition])})
            yield ev.Commit(
                process=member, operation=operation, group="g", positions={where: unread[partition][-1][0] + 1}
            )
            yield ev.Done(process=member, operation=operation)
            everything[partition] += unread[partition]
            unread[partition] = []
    yield ev.ConsumerStarts(process="judge")
    yield ev.Assign(process="judge", positions={f"orders-{index}": 0 for index in range(PARTITIONS)})
    for partition, some in enumerate(everything):
        some += unread[partition]
        for start in range(0, len(some), POLL):
            yield ev.Poll(process="judge", records={f"orders-{partition}": tuple(some[start : start + POLL])})
    yield ev.EndReached(process="judge", positions={f"orders-{index}": end for index, end in enumerate(ends)})


def write(path: Path, records: int) -> None:
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        for event in execution(records):
            file.write(encoder.encode(event) + b"\n")


def measure(path: Path) -> dict[str, object]:
    begin, begin_cpu = time.perf_counter(), time.process_time()
    verdict = judge(HistoryFile(path))
    seconds, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    return {
        "seconds": round(seconds, 1),
        "of a core": round(cpu, 1),
        "file MiB": round(path.stat().st_size / 2**20),
        "memory MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "findings": sum(verdict.counts.values()),
        **verdict.judged,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--file", type=Path, help="judge this history, and make none")
    arguments = parser.parse_args()
    if arguments.file:
        print(json.dumps(measure(arguments.file)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.jsonl"
        write(path, arguments.records)
        print(json.dumps(measure(path)))


if __name__ == "__main__":
    main()
