"""The kernel's randomness behind the Random port."""

from __future__ import annotations

import os
import secrets


class SystemRandom:
    """Unpredictable: uuids, member ids and SCRAM salts come from here."""

    __slots__ = ()

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def random_below(self, bound: int) -> int:
        return secrets.randbelow(bound)
