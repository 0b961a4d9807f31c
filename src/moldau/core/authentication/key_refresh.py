"""When the keys of an issuer are fetched: periodically, sooner after a failure, once for an unknown key."""

from __future__ import annotations

from typing import Final

from moldau.core.authentication.bearer_settings import KeySource

MIN_INTERVAL_S: Final = 10
"""The shortest time between two fetches for unknown keys, because strangers can name any number of keys."""
_MAX_DOUBLINGS: Final = 20


class KeyRefresh:
    """The schedule of one source. All times are steady."""

    def __init__(self, source: KeySource, now_ms: int) -> None:
        """The keys were fetched at `now_ms`."""
        self._source = source
        self._failures = 0
        self.last_ms = now_ms
        """When the last fetch ended."""
        self.due_ms = now_ms + source.refresh_ms
        """When the next fetch begins."""

    def fetched(self, now_ms: int) -> None:
        """A fetch succeeded."""
        self._failures, self.last_ms, self.due_ms = 0, now_ms, now_ms + self._source.refresh_ms

    def failed(self, now_ms: int) -> None:
        """A fetch failed. The old keys stay in use, and the pause doubles up to a maximum."""
        pause_ms = self._source.backoff_ms << min(self._failures, _MAX_DOUBLINGS)
        self._failures += 1
        self.last_ms = now_ms
        self.due_ms = now_ms + min(pause_ms, max(self._source.backoff_ms, self._source.max_backoff_ms))

    def key_is_unknown(self, now_ms: int) -> bool:
        """A token names an unknown key. Returns whether the next fetch comes sooner because of it. After a failure it
        does not."""
        wanted_ms = max(now_ms, self.last_ms + 1_000 * MIN_INTERVAL_S)
        if self._failures or wanted_ms >= self.due_ms:
            return False
        self.due_ms = wanted_ms
        return True
