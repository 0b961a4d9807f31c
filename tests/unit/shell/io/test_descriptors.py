"""The division of descriptors between files and connections."""

from __future__ import annotations

import resource

import pytest

from moldau.shell.io.descriptors import KEPT_BACK, raise_descriptor_limit, share_out


@pytest.mark.parametrize("limit", [64, 256, 1024, 65_536, 1 << 20])
def test_files_and_connections_never_take_all(limit: int) -> None:
    shares = share_out(limit, wanted_files=4096)
    assert shares.files >= 16
    assert shares.connections >= 16
    assert shares.files + shares.connections <= limit - min(KEPT_BACK, limit // 2)


def test_with_many_descriptors_files_get_their_setting_and_connections_the_rest() -> None:
    shares = share_out(65_536, wanted_files=4096)
    assert (shares.files, shares.connections) == (4096, 65_536 - KEPT_BACK - 4096)


def test_the_limit_is_raised_to_what_the_system_allows_unasked() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
        assert raise_descriptor_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 512
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
