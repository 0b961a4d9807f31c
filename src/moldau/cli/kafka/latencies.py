"""The lines of `kafka-producer-perf-test`: records sent, throughput, latency."""

from __future__ import annotations

from moldau.cli.kafka.java_numbers import fixed, ratio

MAX_SAMPLES = 500_000
"""How many latencies are kept for the percentiles; with more records, every n-th is kept."""
_PERCENTILES = ((0.5, "50th"), (0.95, "95th"), (0.99, "99th"), (0.999, "99.9th"))
_MIB = 1024.0 * 1024.0


class Latencies:
    """The latencies of `record_count` records from `now_ms` on; each window of `interval_ms` gives a line. `is_steady`:
    for the records after the warm-up."""

    def __init__(self, record_count: int, now_ms: int, interval_ms: int, *, is_steady: bool = False) -> None:
        self._has_windows = True
        self._interval_ms = interval_ms
        self._is_steady = is_steady
        self._step = max(record_count // MAX_SAMPLES, 1)
        self._start_ms = self._window_ms = now_ms
        self._samples: list[int] = []
        self._count = self._bytes = self._sum_ms = self._max_ms = 0
        self._begin_window(now_ms)

    def _begin_window(self, now_ms: int) -> None:
        self._window_ms = now_ms
        self._window_count = self._window_bytes = self._window_sum_ms = self._window_max_ms = 0

    def end_windows(self) -> None:
        """Stops the lines of windows: another object prints those of later records."""
        self._has_windows = False

    def record(self, latency_ms: int, size: int, now_ms: int) -> list[str]:
        """Counts an acknowledged record of `size` bytes; returns the lines to print."""
        if self._count % self._step == 0:
            self._samples.append(latency_ms)
        self._count += 1
        self._bytes += size
        self._sum_ms += latency_ms
        self._max_ms = max(self._max_ms, latency_ms)
        self._window_count += 1
        self._window_bytes += size
        self._window_sum_ms += latency_ms
        self._window_max_ms = max(self._window_max_ms, latency_ms)
        if now_ms - self._window_ms < self._interval_ms:
            return []
        lines = ["In steady state."] if self._is_steady and self._count == self._window_count else []
        if self._has_windows:
            lines.append(self._window_line(now_ms))
        self._begin_window(now_ms)
        return lines

    def _window_line(self, now_ms: int) -> str:
        elapsed_ms = now_ms - self._window_ms
        return (
            f"{self._window_count} records sent, "
            f"{fixed(ratio(1000.0 * self._window_count, elapsed_ms), 1)} records/sec "
            f"({fixed(ratio(1000.0 * self._window_bytes, elapsed_ms) / _MIB, 2)} MB/sec), "
            f"{fixed(ratio(self._window_sum_ms, self._window_count), 1)} ms avg latency, "
            f"{fixed(float(self._window_max_ms), 1)} ms max latency."
        )

    def total(self, now_ms: int) -> str:
        """The last line."""
        elapsed_ms = now_ms - self._start_ms
        samples = sorted(self._samples)
        percentiles = [
            f"{samples[int(share * len(samples))] if samples else 0} ms {name}" for share, name in _PERCENTILES
        ]
        return (
            f"{self._count}{' steady state' if self._is_steady else ''} records sent, "
            f"{fixed(ratio(1000.0 * self._count, elapsed_ms), 6)} records/sec "
            f"({fixed(ratio(1000.0 * self._bytes, elapsed_ms) / _MIB, 2)} MB/sec), "
            f"{fixed(ratio(self._sum_ms, self._count), 2)} ms avg latency, "
            f"{fixed(float(self._max_ms), 2)} ms max latency, {', '.join(percentiles)}."
        )
