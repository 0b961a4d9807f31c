"""Runs one node as a process: real ports, signals, exit code. `moldau up` uses it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable

import msgspec

from moldau.core.config.broker_settings import BrokerSettings
from moldau.errors import MoldauError
from moldau.ports import Disk
from moldau.shell.io.allocator import keep_freed_buffers
from moldau.shell.io.clock import SystemClock
from moldau.shell.io.descriptors import raise_descriptor_limit, share_out
from moldau.shell.io.host_name import host_name
from moldau.shell.io.random import SystemRandom
from moldau.shell.io.workers import ThreadWorkers
from moldau.shell.node.assemble import Node
from moldau.shell.node.collector import keep_collections_short
from moldau.shell.node.ports import NodePorts
from moldau.transport.network import TcpNetwork

DEFAULT_MEMORY_BYTES = 4 << 30


def run_node(
    settings: BrokerSettings, *, data_directory: str | None, on_ready: Callable[[Node], None] | None = None
) -> int:
    """Serves until SIGINT or SIGTERM, then stops cleanly and returns 0; 1 if the node stopped by itself because its log
    directories failed or an invariant is broken.

    `data_directory` None keeps everything in memory. `on_ready(node)` is called once clients are served. Raises
    MoldauError and OSError if the node cannot start. Takes over the process: its loop, two signals, its collector, its
    allocator.
    """
    keep_freed_buffers()
    try:
        import uvloop
    except ImportError:
        return asyncio.run(_serve(settings, data_directory, on_ready))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(settings, data_directory, on_ready))


async def _serve(settings: BrokerSettings, data_directory: str | None, on_ready: Callable[[Node], None] | None) -> int:
    workers = ThreadWorkers()
    try:
        descriptors = share_out(raise_descriptor_limit(), wanted_files=settings.moldau_open_files)
        opened = open_disks(data_directory, settings, descriptors.files)
        ports = NodePorts(
            clock=SystemClock(),
            timer_ns=time.perf_counter_ns,
            random=SystemRandom(),
            disk=opened.disks[0],
            further_disks=opened.disks[1:],
            paths=opened.paths,
            unopened_paths=opened.unopened_paths,
            host_name=host_name,
            workers=workers,
            network=TcpNetwork(settings.socket_listen_backlog_size),
            physical_memory_bytes=physical_memory_bytes(),
            max_open_connections=descriptors.connections,
        )
        node = Node(settings, ports)
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        starting = loop.create_task(node.start())
        stopping, failing = loop.create_task(stop.wait()), loop.create_task(node.stopped.wait())
        await asyncio.wait((starting, stopping, failing), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            # a recovery may take minutes: Ctrl-C does not wait for it
            starting.cancel()
            await asyncio.wait((starting,))
            return 0 if node.failure is None else 1
        await starting
        keep_collections_short(time.perf_counter)
        if on_ready is not None:
            on_ready(node)
        await asyncio.wait((stopping, failing), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        failing.cancel()
        if node.failure is None:
            await node.stop()
        return 0 if node.failure is None else 1
    finally:
        workers.close()


def open_disk(data_directory: str | None, settings: BrokerSettings, max_open_files: int | None = None) -> Disk:
    """The disk port of a data directory, which is made if absent; None: memory. Raises MoldauError, OSError.

    `max_open_files`: for all log directories together; None: `moldau.open.files`.
    """
    if data_directory is None:
        from moldau.shell.io.simulated.memory_disk import MemoryDisk

        return MemoryDisk()
    from moldau.shell.io.disk import OsDisk

    open_files = settings.moldau_open_files if max_open_files is None else max_open_files
    bound = max(16, open_files // max(1, len(settings.log_directories)))
    return OsDisk(data_directory, max_open_files=bound)


class OpenedDisks(msgspec.Struct, frozen=True):
    """The ports of the opened `log.dirs`, with their absolute paths, and the paths of the others."""

    disks: tuple[Disk, ...]
    paths: tuple[str, ...]
    unopened_paths: tuple[str, ...]


def open_disks(data_directory: str | None, settings: BrokerSettings, max_open_files: int | None = None) -> OpenedDisks:
    """`data_directory` is the first of `log.dirs`; the node does not start without it. Raises MoldauError, OSError."""
    first = open_disk(data_directory, settings, max_open_files)
    if data_directory is None:
        return OpenedDisks((first,), ("memory",), ())
    disks, paths, unopened = [first], [os.path.abspath(data_directory)], []
    for path in settings.log_directories[1:]:
        try:
            disks.append(open_disk(path, settings, max_open_files))
            paths.append(os.path.abspath(path))
        except (MoldauError, OSError):
            unopened.append(os.path.abspath(path))
    return OpenedDisks(tuple(disks), tuple(paths), tuple(unopened))


def physical_memory_bytes() -> int:
    """RAM of this machine in bytes, if the system reports it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return DEFAULT_MEMORY_BYTES
