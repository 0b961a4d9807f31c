"""The Random port on the kernel's randomness."""

from __future__ import annotations

import os
import secrets


class SystemRandom:
    """Unpredictable: used for uuids, member ids and SCRAM salts."""

    __slots__ = ()

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def random_below(self, bound: int) -> int:
        return secrets.randbelow(bound)
