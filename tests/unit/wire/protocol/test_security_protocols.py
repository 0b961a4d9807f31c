"""Which hosts are only this machine's own."""

from __future__ import annotations

import pytest

from moldau.wire.protocol.security_protocols import is_loopback


@pytest.mark.parametrize("host", ["localhost", "LocalHost", "127.0.0.1", "127.8.9.1", "::1", "[::1]"])
def test_the_loopback_is_known(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["", "[]", "0.0.0.0", "::", "10.0.0.1", "127.1", "localhost.example.org", "x.localhost", "127.0.0.1.nip.io"]
)
def test_what_others_may_reach_is_no_loopback(host: str) -> None:
    assert not is_loopback(host)
