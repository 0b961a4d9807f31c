"""Metrics of this machine: numbers by name."""

from __future__ import annotations

import re

import psutil

# devices without their own data, which would only repeat others or stay at zero
_LEFT_OUT_DISKS = re.compile(r"(loop|ram|zram|sr|fd)\d+|dm-\d+|[shv]d[a-z]+\d+|nvme\d+n\d+p\d+")
MAX_SERIES_OF_A_KIND = 64
SHORTEST_SECONDS = 0.05


class MachineMetrics:
    """Samples each core, disk and network interface, and memory; rates are per second since the previous sample."""

    def __init__(self) -> None:
        self._before: dict[str, float] = {}
        self._before_seconds = float("-inf")
        self._newest: dict[str, float] = {}
        psutil.cpu_percent(percpu=True)

    def sample(self, now_seconds: float) -> dict[str, float]:
        """`now_seconds`: a clock that never goes back. The first sample's rates are 0. Returns the last sample again if
        it is younger than SHORTEST_SECONDS: after a late tick the next one follows at once, and a share or a rate over
        so little time is no measurement."""
        if now_seconds - self._before_seconds < SHORTEST_SECONDS:
            return dict(self._newest)
        values = {f"cpu{number}.percent": used for number, used in enumerate(psutil.cpu_percent(percpu=True))}
        values["memory.percent"] = psutil.virtual_memory().percent
        values["memory.available_mib"] = round(psutil.virtual_memory().available / 2**20, 1)
        totals = self._totals()
        elapsed = now_seconds - self._before_seconds
        for name, total in totals.items():
            grown = max(0.0, total - self._before.get(name, total))
            values[name] = round(grown / elapsed, 1)
        self._before, self._before_seconds, self._newest = totals, now_seconds, values
        return dict(values)

    def processes(self) -> dict[str, float]:
        """The numbers of processes and threads: they cost more to count, so they are sampled less often."""
        pids = psutil.pids()
        return {"processes.count": float(len(pids)), "load.1min": round(psutil.getloadavg()[0], 2)}

    def _totals(self) -> dict[str, float]:
        totals: dict[str, float] = {}
        disks = psutil.disk_io_counters(perdisk=True) or {}
        whole = [name for name in sorted(disks) if not _LEFT_OUT_DISKS.fullmatch(name)]
        for name in whole[:MAX_SERIES_OF_A_KIND]:
            totals[f"disk.{name}.read_kib"] = disks[name].read_bytes / 1024
            totals[f"disk.{name}.written_kib"] = disks[name].write_bytes / 1024
        interfaces = psutil.net_io_counters(pernic=True)
        for name in sorted(interfaces)[:MAX_SERIES_OF_A_KIND]:
            totals[f"net.{name}.received_kib"] = interfaces[name].bytes_recv / 1024
            totals[f"net.{name}.sent_kib"] = interfaces[name].bytes_sent / 1024
        return totals
