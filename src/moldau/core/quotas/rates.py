"""Rates as in Apache Kafka: samples over a moving window, and a token bucket for bursts (KIP-13, 599)."""

from __future__ import annotations

import msgspec


class Windows(msgspec.Struct, frozen=True):
    """`count` samples of `size_ms` each: quota.window.num and quota.window.size.seconds."""

    count: int = 11
    size_ms: int = 1_000


class _Sample:
    __slots__ = ("last_ms", "start_ms", "total")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.total = 0.0


class SampledRate:
    """A rate per second over the last samples. Time must not go back."""

    __slots__ = ("_current", "_samples", "_windows")

    def __init__(self, windows: Windows, now_ms: int) -> None:
        self._windows = windows
        self._samples = [_Sample(now_ms)]
        self._current = 0

    def record(self, amount: float, now_ms: int) -> None:
        """Counts `amount`. A negative one takes back."""
        sample = self._samples[self._current]
        if now_ms - sample.start_ms >= self._windows.size_ms:
            sample = self._advance(now_ms)
        sample.total += amount
        sample.last_ms = now_ms

    def _advance(self, now_ms: int) -> _Sample:
        # one more sample than the window has, because the oldest one overlaps its beginning
        self._current = (self._current + 1) % (self._windows.count + 1)
        if self._current == len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        return self._samples[self._current]

    def measure(self, now_ms: int) -> tuple[float, int]:
        """(rate per second, measured milliseconds). A new rate is spread over all but one of the samples, so that the
        first bytes of a client are no burst."""
        windows = self._windows
        total, oldest_ms = 0.0, now_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= windows.count * windows.size_ms:
                sample.reset(now_ms)
            total += sample.total
            oldest_ms = min(oldest_ms, sample.start_ms)
        elapsed_ms = self._spread(now_ms - oldest_ms)
        return (total * 1_000 / elapsed_ms if elapsed_ms else 0.0), elapsed_ms

    def _spread(self, elapsed_ms: int) -> int:
        missing = self._windows.count - 1 - elapsed_ms // self._windows.size_ms
        return elapsed_ms + max(0, missing) * self._windows.size_ms

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """The time until the rate is at `limit` without further use; 0 if it is below."""
        rate, elapsed_ms = self.measure(now_ms)
        if rate <= limit:
            return 0
        return round_half_up((rate - limit) / limit * elapsed_ms)


class PromptRate(SampledRate):
    """A new rate is measured over its own time, at least one sample: Kafka's SimpleRate."""

    __slots__ = ()

    def _spread(self, elapsed_ms: int) -> int:
        return max(elapsed_ms, self._windows.size_ms)


class TokenBucket:
    """`limit` tokens a second, at most those of all samples. One take may overdraw it."""

    __slots__ = ("_filled_ms", "_tokens", "_windows")

    def __init__(self, windows: Windows, now_ms: int) -> None:
        self._windows = windows
        self._tokens = float("inf")
        self._filled_ms = now_ms

    def _fill(self, limit: float, now_ms: int) -> None:
        burst = limit * self._windows.count * self._windows.size_ms / 1_000
        self._tokens = min(burst, self._tokens + limit * (now_ms - self._filled_ms) / 1_000)
        self._filled_ms = now_ms

    def tokens(self, limit: float, now_ms: int) -> float:
        """The tokens in the bucket; negative: overdrawn."""
        self._fill(limit, now_ms)
        return self._tokens

    def take(self, amount: float, limit: float, now_ms: int) -> None:
        """Takes tokens, also more than the bucket has. `limit`: tokens per second."""
        self._fill(limit, now_ms)
        self._tokens -= amount

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """The time until the bucket is not negative; 0 if it is not."""
        tokens = self.tokens(limit, now_ms)
        return round_half_up(-tokens / limit * 1_000) if tokens < 0 else 0


def round_half_up(value: float) -> int:
    """As Java's Math.round, within the range of a response field."""
    return int(min(value + 0.5, 2**31 - 1))
