"""Runs the processes of a cluster on this machine: starts, restarts and stops them."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from moldau import __version__
from moldau.cli.nodes.announcement import METRICS, READY, line_to_try, lines_of_tls, say
from moldau.cli.nodes.local_cluster.layout import LocalNode
from moldau.cli.output import CommandError

if TYPE_CHECKING:
    from moldau.cli.nodes.up_tls import LocalTls

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0
STEADY_S = 60.0
"""After a process lived this long, the next restart waits only the first pause."""

logger = logging.getLogger("moldau.cluster")


class NodeProcess:
    """The process of one node, and its successors after restarts."""

    def __init__(self, node: LocalNode, log_format: str) -> None:
        self.node = node
        self.metrics = ""
        """The address of its metrics, once it serves."""
        self._log_format = log_format
        self._process: Process | None = None
        self._pause_s = FIRST_PAUSE_S

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self) -> bool:
        """Returns True once the process serves; False if it ended before, after printing the reason."""
        words = ("-m", "moldau.cli.nodes.local_cluster.node", "--config", str(self.node.config))
        process = self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, *words, "--log-format", self._log_format),
            stdin=PIPE,
            stdout=PIPE,
            start_new_session=True,  # Ctrl-C is for the supervisor, which stops the nodes one after another
        )
        lines = process.stdout
        while lines is not None and (line := await lines.readline()):
            text = line.decode(errors="replace").strip()
            if text.startswith(METRICS):
                self.metrics = text.removeprefix(METRICS).strip()
            if text.startswith(READY):
                return True
        return False

    async def keep(self) -> None:
        """Restarts the process whenever it ends, until the task is cancelled."""
        loop = asyncio.get_running_loop()
        while self._process is not None:
            started_s, pid, code = loop.time(), self._process.pid, await self._process.wait()
            if loop.time() - started_s >= STEADY_S:
                self._pause_s = FIRST_PAUSE_S
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            self._tell(f"(process {pid}) {how} and is started again in {self._pause_s:g} s")
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
            if await self.start():
                self._tell(f"serves again as process {self.pid}")

    async def stop(self) -> None:
        """Stops cleanly: the node's partitions get other leaders before it ends."""
        await self._end(Process.terminate)

    async def kill(self) -> None:
        await self._end(Process.kill)

    async def _end(self, send: Callable[[Process], None]) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                send(self._process)
            await self._process.wait()

    def _tell(self, message: str) -> None:
        fields = {"node": self.node.node_id}
        logger.warning("node %s %s", self.node.node_id, message, extra={"kind": "node process", "fields": fields})


async def run_nodes(
    nodes: Sequence[LocalNode], log_format: str, announce: Callable[[Sequence[NodeProcess]], None]
) -> int:
    """Runs until Ctrl-C or SIGTERM, which stops the nodes one after another (returns 0); a second signal kills them
    (returns 130).

    Calls `announce` when all nodes serve. Raises CommandError if one ends before that.
    """
    processes = [NodeProcess(node, log_format) for node in nodes]
    is_stopping, is_killing = asyncio.Event(), asyncio.Event()

    def signalled() -> None:
        (is_killing if is_stopping.is_set() else is_stopping).set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, signalled)
    try:
        await _unless(is_stopping, _live(processes, announce))
    finally:
        is_stopping.set()
        was_clean = await _unless(is_killing, _stop(processes))
        await asyncio.gather(*(process.kill() for process in processes))
    return 0 if was_clean else 130


async def _unless(event: asyncio.Event, work: Coroutine[None, None, None]) -> bool:
    """Runs `work` until it ends or `event` is set, which cancels it. Returns whether `work` ended. Raises the errors of
    `work`."""
    loop = asyncio.get_running_loop()
    working, waiting = loop.create_task(work), loop.create_task(event.wait())
    await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
    has_ended = working.done()
    working.cancel()
    waiting.cancel()
    await asyncio.wait((working, waiting))
    if has_ended:
        working.result()
    return has_ended


async def _live(processes: Sequence[NodeProcess], announce: Callable[[Sequence[NodeProcess]], None]) -> None:
    """Starts the nodes and keeps them running. Raises CommandError if one does not start."""
    await asyncio.gather(*(_start_first(process) for process in processes))
    announce(processes)
    await asyncio.gather(*(process.keep() for process in processes))


async def _start_first(process: NodeProcess) -> None:
    if not await process.start():
        raise CommandError(f"node {process.node.node_id} did not start, and the others are stopped")


async def _stop(processes: Sequence[NodeProcess]) -> None:
    """Stops the nodes one after another, but the last two together: neither would find a controller without the
    other."""
    for process in processes[:-2]:
        await process.stop()
    await asyncio.gather(*(process.stop() for process in processes[-2:]))


def announce_cluster(
    directory: Path, processes: Sequence[NodeProcess], beside: Mapping[str, str], tls: LocalTls | None
) -> None:
    """The `announce` of a cluster."""
    nodes = [process.node for process in processes]
    address = ",".join(node.address for node in nodes)
    security = "TLS for clients, no authentication" if tls else "no authentication"
    lines = [f"Moldau {__version__}: a cluster of {len(nodes)} brokers and controllers, Kafka protocol, {security}"]
    for process in processes:
        node = process.node
        lines.append(f"  node {node.node_id}     {node.address}, process {process.pid}, {METRICS} {process.metrics}")
    lines.append(f"  records    {directory.resolve()}")
    lines.append(f"  connect    bootstrap.servers={address}")
    lines += lines_of_tls(tls)
    lines += [f"  {name:<10} {address}" for name, address in beside.items()]
    lines.append(line_to_try(nodes[0].address, tls))
    say([*lines, f"{READY}{address}"])
