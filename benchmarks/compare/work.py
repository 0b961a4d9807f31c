"""The measurements. Each one runs a client in a separate process, as users do. Every wait has a bound."""

from __future__ import annotations

import itertools
import mmap
import multiprocessing
import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import psutil

from benchmarks.compare import servers
from benchmarks.compare.systems import System
from benchmarks.compare.values import Acknowledged, Values, drawn_at_ns, number_of
from benchmarks.peers import Peer, PeerError

Figures = dict[str, float]
CONTEXT = multiprocessing.get_context("spawn")
IDLE_S = 5
"""A reader that gets nothing for so long after a record has read everything."""
READY_S = 60
"""The longest wait for a client's first record."""


@dataclass(frozen=True)
class Job:
    """What one client does: where, with which records, and for how long at most."""

    system: System
    address: str
    name: str
    value_bytes: int
    records: int
    seconds: float
    window: int
    rate: int = 0
    pids: tuple[int, ...] = ()
    """Processes of the server."""
    reader: str = "first"
    patience_s: float = READY_S
    """The longest wait of a reader for its first record."""


def server_cpu_s(pids: tuple[int, ...]) -> float:
    seconds = 0.0
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            times = psutil.Process(pid).cpu_times()
            seconds += times.user + times.system
    return seconds


class Child:
    """A process that runs `function(*arguments)` and sends back what it returns."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._answers, answers = CONTEXT.Pipe(duplex=False)
        self.process: BaseProcess = CONTEXT.Process(target=_answer, args=(answers, function, arguments), daemon=True)
        self.process.start()
        answers.close()

    def result(self, deadline_s: float) -> Any:
        """Raises PeerError if the function fails or takes longer."""
        try:
            if not self._answers.poll(deadline_s):
                raise PeerError(f"no result within {deadline_s:.0f} s")
            is_good, value = self._answers.recv()
        except EOFError as error:
            raise PeerError("the client's process ended early") from error
        finally:
            self.kill()
        if not is_good:
            raise PeerError(value)
        return value

    def kill(self) -> None:
        self.process.kill()
        self.process.join(READY_S)


def _answer(answers: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        answers.send((True, function(*arguments)))
    except Exception as error:
        answers.send((False, f"{type(error).__name__}: {error}"))


def _write(job: Job) -> Figures:
    acknowledged = Acknowledged(memoryview(bytearray(job.records)))
    values = Values(acknowledged, value_bytes=job.value_bytes, records=job.records, seconds=job.seconds)
    server: list[float] = []
    values.on_start = lambda: server.append(server_cpu_s(job.pids))
    job.system.connect(job.address).write(job.name, values.at_full_speed(), job.window, acknowledged)
    client_cpu_s = time.process_time() - values.cpu_at_start
    timed = acknowledged.count - 1
    if timed < 1:
        raise PeerError("no record was acknowledged after the first")
    return {
        "records": acknowledged.count,
        "rate": timed / (acknowledged.last_at - values.started_at),
        "client_cpu_s_per_million": client_cpu_s / timed * 1e6,
        "server_cpu_s_per_million": (server_cpu_s(job.pids) - server[0]) / timed * 1e6,
    }


def _read(job: Job) -> Figures:
    """`first_number` is -1 if nothing came."""
    seen, first_number, head = 0, -1, 0
    started_at = idle_since = time.perf_counter()
    ended_at = cpu_before = server_before = 0.0
    for batch in job.system.connect(job.address).read(job.name, job.reader, job.window):
        now = time.perf_counter()
        if batch:
            if not seen:
                first_number, head, started_at = number_of(batch[0]), len(batch), now
                cpu_before, server_before = time.process_time(), server_cpu_s(job.pids)
            seen += len(batch)
            idle_since = ended_at = now
        is_idle = now - idle_since > (IDLE_S if seen else job.patience_s)
        if seen >= job.records or is_idle or (seen and now - started_at > job.seconds):
            break
    timed = seen - head
    if timed < 1:
        return {"records": seen, "first_number": first_number}
    return {
        "records": seen,
        "first_number": first_number,
        "rate": timed / (ended_at - started_at),
        "client_cpu_s_per_million": (time.process_time() - cpu_before) / timed * 1e6,
        "server_cpu_s_per_million": (server_cpu_s(job.pids) - server_before) / timed * 1e6,
    }


def create(job: Job) -> None:
    """Makes the topic, queue or stream. Raises PeerError for any error of the client library."""
    try:
        job.system.connect(job.address).create(job.name)
    except Exception as error:
        raise PeerError(f"{job.name} was not made: {type(error).__name__}: {error}") from error


def delete(job: Job) -> None:
    """Deletes it with its records. Raises like `create`."""
    try:
        job.system.connect(job.address).delete(job.name)
    except Exception as error:
        raise PeerError(f"{job.name} was not deleted: {type(error).__name__}: {error}") from error


def write(job: Job) -> Figures:
    """Records a second until the last acknowledgement, and CPU seconds of both sides for a million records."""
    found: Figures = Child(_write, job).result(job.seconds + 2 * READY_S)
    return found


def read(job: Job) -> Figures:
    """Records a second from the first batch on, and CPU seconds of both sides for a million records."""
    found: Figures = Child(_read, job).result(job.seconds + 2 * READY_S)
    return found


def _follow(job: Job, is_ready: Event) -> list[float]:
    latencies: list[float] = []
    idle_since = time.perf_counter()
    for batch in job.system.connect(job.address).read(job.name, job.reader, job.window):
        now = time.perf_counter_ns()
        if batch:
            is_ready.set()
            idle_since = time.perf_counter()
            latencies += [(now - drawn) / 1e6 for value in batch if (drawn := drawn_at_ns(value))]
        if len(latencies) >= job.records - 1 or time.perf_counter() - idle_since > READY_S:
            break
    return latencies


def _write_at_rate(job: Job, is_ready: Event) -> float:
    acknowledged = Acknowledged(memoryview(bytearray(job.records)))
    values = Values(acknowledged, value_bytes=job.value_bytes, records=job.records, seconds=job.seconds)
    job.system.connect(job.address).write(job.name, values.at_rate(job.rate, is_ready.is_set), job.window, acknowledged)
    return (acknowledged.count - 1) / (acknowledged.last_at - values.started_at)


def latency(job: Job) -> Figures:
    """From the draw of a record to its arrival at a reader in another process: p50 and p99 in ms. The first tenth is
    not counted."""
    is_ready = CONTEXT.Event()
    follower = Child(_follow, job, is_ready)
    writer = Child(_write_at_rate, job, is_ready)
    deadline_s = job.records / job.rate + 3 * READY_S
    try:
        rate = writer.result(deadline_s)
        latencies: list[float] = follower.result(deadline_s)
    finally:
        writer.kill()
        follower.kill()
    counted = sorted(latencies[len(latencies) // 10 :])
    if not counted:
        raise PeerError("the reader got no timed record")
    return {"p50_ms": counted[len(counted) // 2], "p99_ms": counted[int(len(counted) * 0.99)], "rate": rate}


def shared_flags(path: Path, records: int) -> mmap.mmap:
    """One byte for each record, in a file that several processes map."""
    if not path.exists():
        path.write_bytes(bytes(records))
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), records)


def _write_flagged(job: Job, path: Path) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # a client library reports the killed server
    acknowledged = Acknowledged(memoryview(shared_flags(path, job.records)))
    values = Values(acknowledged, value_bytes=job.value_bytes, records=job.records, seconds=job.seconds)
    job.system.connect(job.address).write(job.name, values.at_full_speed(), job.window, acknowledged)


def count_lost(written: mmap.mmap, found: mmap.mmap) -> int:
    return sum(1 for flag, seen in zip(bytes(written), bytes(found), strict=True) if flag and not seen)


def _read_flagged(job: Job, written: Path, found: Path) -> None:
    """Sets the flag in `found` of each record that it reads. Ends when it has read every record that is flagged in
    `written`, or when no more records come."""
    acknowledged, flags = shared_flags(written, job.records), shared_flags(found, job.records)
    missing = count_lost(acknowledged, flags)
    begin = idle_since = time.perf_counter()
    for batch in job.system.connect(job.address).read(job.name, job.reader, job.window):
        if batch:
            idle_since = time.perf_counter()
            for value in batch:
                number = number_of(value)
                missing -= acknowledged[number] and not flags[number]
                flags[number] = 1
        now = time.perf_counter()
        if not missing or now - idle_since > job.patience_s or now - begin > job.seconds:
            return


def after_kill(job: Job, peer: Peer | None, folder: Path, chance: random.Random) -> Figures:
    """kill -9 of the server (of the writer, where a file is the server) under full load, a restart, and a complete
    read: how many acknowledged records there were, and how many of them are gone."""
    written, found = folder / f"{job.name}.acknowledged", folder / f"{job.name}.read"
    flags = shared_flags(written, job.records)
    writer = Child(_write_flagged, job, written)
    try:
        _wait_for_flag(flags, min(job.window, job.records - 1), writer)
        time.sleep(chance.uniform(0.2, 0.8))
        if peer is not None:
            servers.kill(peer)
            time.sleep(0.2)  # for acknowledgements that are on their way
    finally:
        writer.kill()
    if peer is not None:
        peer.start()
    total = bytes(flags).count(1)
    read_again = shared_flags(found, job.records)
    ends_at = time.perf_counter() + 3 * READY_S
    for attempt in itertools.count():  # a server that has just started may still load its data, or give no answer
        try:
            reader = replace(job, reader=f"{job.reader}{attempt}", seconds=READY_S / 2)
            Child(_read_flagged, reader, written, found).result(READY_S)
            break
        except PeerError:
            if time.perf_counter() > ends_at:
                raise
            time.sleep(1)
    return {"acknowledged": total, "lost": count_lost(flags, read_again)}


def _wait_for_flag(flags: mmap.mmap, number: int, writer: Child) -> None:
    begin = time.perf_counter()
    while not flags[number]:
        if time.perf_counter() - begin > READY_S or not writer.process.is_alive():
            raise PeerError("the writer got no acknowledgements before the kill")
        time.sleep(0.01)
